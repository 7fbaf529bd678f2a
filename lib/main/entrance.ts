import type { Clock } from '../base/clock.js'
import { bunVersion } from '../base/runtime.js'
import type { Certificate, CertificateFiles } from '../http/certificate.js'
import { isLoopback } from '../http/client-address.js'
import type { HttpServer, ServerOptions } from '../http/server.js'
import type { SocketPlace } from '../http/socket-file.js'
import type { Reloadable } from './reload.js'

const defaultHost = '127.0.0.1' // §1
const defaultPort = 5431 // §1

/** Where and how a server is reached: at an address, or at a socket in the file system. */
export interface EntranceOptions {
  host?: string
  /** 0: any that is free. */
  port?: number
  /** Instead of an address. */
  socket?: SocketPlace
  /** With it, connections are encrypted. */
  tls?: CertificateFiles
}

/** An entrance that is ready to be opened. */
export interface Entrance {
  /** What the server must know before it listens. */
  secure: Pick<ServerOptions<string, unknown>, 'secure'>
  /** Refuses an address where `open` would, and leaves nothing behind. */
  check(): Promise<void>
  /** Looks at the certificate at once: what is different, for `createReload`. */
  reload: Reloadable
  /** Listens. Refuses as `listen` and `listenOnSocket`. */
  open(http: Pick<HttpServer, 'listen' | 'listenOnSocket'>): Promise<Opened>
}

export interface Opened {
  /** With the base prefix, without a slash at its end; of a socket `unix:<path>`. */
  url: string
  /** What else there is to say of it. */
  infos: readonly string[]
  warnings: readonly string[]
}

interface EntranceNeeds {
  /** As `normaliseBase` gives it. */
  base: string
  clock: Clock
  report: { info(line: string): void; warn(line: string): void }
}

/**
 * Looks whether it can be opened, and changes nothing: reads the certificate, if there is to be one. Refuses as
 * `readCertificate` and `checkSocketPath`.
 */
export async function prepareEntrance(options: EntranceOptions, { base, clock, report }: EntranceNeeds): Promise<Entrance> {
  const { host = defaultHost, port = defaultPort, socket, tls } = options
  if (socket !== undefined) await (await import('../http/socket-file.js')).checkSocketPath(socket.path)
  const security = tls === undefined ? null : await openTls(tls, { clock, report })
  return {
    secure: security === null ? {} : { secure: security.secure },
    async check() {
      if (socket === undefined) await (await import('../http/listen-address.js')).checkAddress({ host, port })
    },
    reload: async () => (await security?.reload()) ?? null,
    async open(http) {
      if (socket !== undefined) {
        await http.listenOnSocket(socket)
        return { url: `unix:${socket.path}`, infos: base === '' ? [] : [`Everything is below ${base}/`], warnings: [] }
      }
      const bound = await http.listen({ host, port })
      const url = `${security === null ? 'http' : 'https'}://${urlHost(bound.host)}:${bound.port}${base}`
      if (security === null) return { url, infos: [], warnings: isLoopback(bound.host) ? [] : notEncrypted(bound.host) }
      const { certificate } = security
      return { url, infos: [`Certificate: ${describe(certificate)}`], warnings: [...certificate.warnings, ...withoutRenewal()] }
    }
  }
}

/** Loaded only where it is wanted: TLS takes its time. */
async function openTls(files: CertificateFiles, { clock, report }: Pick<EntranceNeeds, 'clock' | 'report'>) {
  const [{ openRenewal }, { createSecureServer }, { contextOf }] = await Promise.all([
    import('../http/renewal.js'), import('../http/secure-server.js'), import('../http/certificate.js')
  ])
  const renewal = await openRenewal({
    files,
    clock,
    onRenewed(certificate) {
      report.info(`A new certificate is in use: ${describe(certificate)}`)
      for (const warning of certificate.warnings) report.warn(warning)
    },
    onExpired: ({ expiresAt }) =>
      report.warn(`The certificate "${files.cert}" expired on ${expiresAt.slice(0, 10)} and clients refuse it: renew it`),
    onBroken: error => report.warn(`The certificate of before stays in use: ${error instanceof Error ? error.message : error}`)
  })
  let server: ReturnType<typeof createSecureServer> | undefined
  const secure: NonNullable<ServerOptions<string, unknown>['secure']> = options => (server = createSecureServer(options, renewal))
  async function reload(): Promise<string | null> {
    const next = await renewal.look()
    if (next === null) return null
    server?.setSecureContext(contextOf(next))
    return 'another certificate'
  }
  return { secure, certificate: renewal.certificate, reload }
}

function withoutRenewal(): string[] {
  return bunVersion === undefined ? [] : ['svc runs in Bun: a renewed certificate counts after a restart']
}

function describe({ names, expiresAt }: Certificate): string {
  return `${names.join(', ') || 'without a name'}, until ${expiresAt.slice(0, 10)}`
}

function notEncrypted(host: string): string[] {
  return [
    `${host} can be reached from other machines, and the connection is not encrypted:`,
    'use --tls-cert and --tls-key, or 127.0.0.1 behind a proxy that speaks HTTPS, or a private network'
  ]
}

function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
