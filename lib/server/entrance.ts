import type { Clock } from '../base/clock.js'
import { bunVersion } from '../base/runtime.js'
import type { Certificate, CertificateFiles } from '../http/tls/certificate.js'
import { isLoopback } from '../http/core/headers.js'
import type { HttpServer, ServerOptions } from '../http/core/server.js'
import type { SocketPlace } from '../http/core/listen.js'
import type { ExpiryWarnings } from '../http/tls/expiry.js'

const defaultHost = '127.0.0.1' // §1
const defaultPort = 5431 // §1

/** Where and how clients reach a server: at an address, or at a socket in the file system. */
export interface EntranceOptions {
  host?: string
  /** Port to listen on. 0 chooses a free port. */
  port?: number
  /** Unix socket to listen on instead of an address. */
  socket?: SocketPlace
  /** Certificate and key. If given, connections are encrypted. */
  tls?: CertificateFiles
}

/** An entrance that is ready to be opened. */
export type Entrance = Awaited<ReturnType<typeof prepareEntrance>>

/** An open entrance: its URL, and the lines to print about it. */
export interface Opened {
  /** URL with the base prefix and without a final slash; `unix:<path>` for a socket. */
  url: string
  /** Further lines to print. */
  infos: readonly string[]
  warnings: readonly string[]
}

interface EntranceNeeds {
  /** Base path as `normaliseBase` returns it. */
  base: string
  clock: Clock
  expiry: Pick<ExpiryWarnings, 'look'>
  report: { info(line: string): void; warn(line: string): void }
}

/**
 * Checks that the entrance can be opened, and changes nothing. Reads the certificate if there is one. Refuses as
 * `readCertificate` and `checkSocketPath` do.
 */
export async function prepareEntrance(options: EntranceOptions, { base, ...needs }: EntranceNeeds) {
  const { host = defaultHost, port = defaultPort, socket, tls } = options
  if (socket !== undefined) await (await import('../http/core/listen.js')).checkSocketPath(socket.path)
  const security = tls === undefined ? null : await openTls(tls, needs)
  let ownUrl: string | null = null
  return {
    /** Returns the URL at which the server listens; null: none yet, or a Unix socket. */
    url: () => ownUrl,

    /** Options that the HTTP server needs before it listens. */
    secure: security === null ? {} : { secure: security.secure },

    /** Refuses an address that `open` would refuse, and leaves nothing behind. */
    async check(): Promise<void> {
      if (socket === undefined) await (await import('../http/core/listen.js')).checkAddress({ host, port })
    },

    /** Reads the certificate again, for `createReload`. Returns what has changed. */
    reload: async () => (await security?.reload()) ?? null,

    /** Starts to listen. Refuses as `listen` and `listenOnSocket` do. */
    async open(http: Pick<HttpServer, 'listen' | 'listenOnSocket'>): Promise<Opened> {
      if (socket !== undefined) {
        await http.listenOnSocket(socket)
        return { url: `unix:${socket.path}`, infos: base === '' ? [] : [`All paths begin with ${base}/`], warnings: [] }
      }
      const bound = await http.listen({ host, port })
      const url = `${security === null ? 'http' : 'https'}://${urlHost(bound.host)}:${bound.port}${base}`
      ownUrl = url
      if (security === null) return { url, infos: [], warnings: isLoopback(bound.host) ? [] : notEncrypted(bound.host) }
      const { certificate } = security
      return {
        url,
        infos: [`Certificate: ${describe(certificate)}`],
        warnings: [...certificate.warnings, ...withoutRenewal()]
      }
    }
  }
}

/** The TLS modules are loaded only if they are used, because loading them takes time. */
async function openTls(files: CertificateFiles, { clock, expiry, report }: Omit<EntranceNeeds, 'base'>) {
  const { contextOf, createSecureServer, openRenewal } = await import('../http/tls/certificate.js')
  const renewal = await openRenewal({
    files,
    clock,
    onRenewed(certificate) {
      report.info(`New certificate in use: ${describe(certificate)}`)
      for (const warning of certificate.warnings) report.warn(warning)
    },
    onLook: ({ expiresAt }) =>
      expiry.look({
        name: `The certificate "${files.cert}"`,
        expiresAtMs: Date.parse(expiresAt),
        cure: 'Clients reject it then. Renew it: it is read again'
      }),
    onBroken: error =>
      report.warn(`The previous certificate stays in use: ${error instanceof Error ? error.message : error}`)
  })
  let server: ReturnType<typeof createSecureServer> | undefined
  const secure: NonNullable<ServerOptions<string, unknown>['secure']> = options =>
    (server = createSecureServer(options, renewal))
  async function reload(): Promise<string | null> {
    const next = await renewal.look()
    if (next === null) return null
    server?.setSecureContext(contextOf(next))
    return 'new certificate'
  }
  return { secure, certificate: renewal.certificate, reload }
}

function withoutRenewal(): string[] {
  return bunVersion === undefined ? [] : ['svc runs in Bun: a renewed certificate takes effect after a restart']
}

function describe({ names, expiresAt }: Certificate): string {
  return `${names.join(', ') || 'without a name'}, until ${expiresAt.slice(0, 10)}`
}

function notEncrypted(host: string): string[] {
  return [
    `${host} is reachable from other machines, and connections are not encrypted:`,
    'use --tls-cert and --tls-key, or 127.0.0.1 behind a proxy that speaks HTTPS, or a private network'
  ]
}

function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
