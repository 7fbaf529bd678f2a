import { resolve } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { choice, number, option, type Options, type OptionTable, toggle, usage } from '../command.js'

/** An option of `serve` and `agent`. */
export const allowSystemPathsOption = toggle(
  'allow projects to deploy to system directories, such as /etc or .ssh (docs/security.md)'
)

/** An option of `serve` and `agent`. */
export const requireSignaturesOption = toggle(
  'take only releases that a key in keys/allowed_signers of the data directory has signed; no token changes that'
)

/** An option of `serve` and `agent`. */
export const logFormatOption = choice(
  ['text', 'json'],
  'json: print each line as an object with time, level and message, and never print the admin token',
  { default: 'text' }
)

/** The options of `serve` for listening. None has a default here, so that only given options can conflict. */
export const listeningOptions = {
  host: option('address', 'address to listen on (default 127.0.0.1)'),
  port: number('number', 'port to listen on (default 5431); 0 chooses a free one', { alias: 'p', maximum: 65_535 }),
  socket: option('path', 'listen on a Unix socket instead, for a proxy on this machine'),
  'socket-mode': option('mode', 'permissions of the socket, as for chmod (default 0660)'),
  'tls-cert': option('file', 'serve HTTPS with this certificate chain in PEM; reloaded when it is renewed'),
  'tls-key': option('file', 'private key of the certificate in PEM, without a passphrase')
} as const satisfies OptionTable

/** The values of `listeningOptions`. */
export type ListeningWords = Options<typeof listeningOptions>

/** Where the server listens, and how. */
interface Listening {
  host?: string
  port?: number
  socket?: { path: string; mode: number }
  tls?: { cert: string; key: string }
}

const defaultSocketMode = '0660'

/** Checks and converts the options, with absolute paths. Refuses options that conflict, with the kind `usage`. */
export function listeningOf(words: ListeningWords, cwd: string): Listening {
  const { host, port, socket } = words
  const { 'tls-cert': cert, 'tls-key': key, 'socket-mode': mode } = words
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? '--tls-cert' : '--tls-key'
    throw usage(missing, `${missing} is missing: --tls-cert and --tls-key must be given together`)
  }
  if (socket === undefined) {
    if (mode !== undefined) throw usage('--socket-mode', '--socket-mode can only be used with --socket')
    return {
      ...(host !== undefined && { host }),
      ...(port !== undefined && { port }),
      ...(cert !== undefined && key !== undefined && { tls: { cert: resolve(cwd, cert), key: resolve(cwd, key) } })
    }
  }
  const other =
    port !== undefined ? '--port' : host !== undefined ? '--host' : cert !== undefined ? '--tls-cert' : undefined
  if (other !== undefined) {
    const why = other === '--tls-cert' ? 'the proxy terminates TLS' : 'the server listens on one address'
    throw usage(other, `${other} and --socket cannot be used together: ${why}`)
  }
  if (process.platform === 'win32') {
    throw new Refusal(
      'unsupported',
      'no_sockets',
      '--socket cannot be used on Windows, which has no Unix sockets. Use --port',
      { field: '--socket' }
    )
  }
  return { socket: { path: resolve(cwd, socket), mode: modeOf(mode ?? defaultSocketMode) } }
}

function modeOf(text: string): number {
  if (/^0?[0-7]{3}$/.test(text)) return Number.parseInt(text, 8)
  throw usage('--socket-mode', `--socket-mode cannot be "${text}": it must be three or four octal digits, like 0660`)
}

/** The options of `serve` for a hub. */
export const hubOptions = {
  store: option(
    'etcd:url,…',
    'be a hub of a cluster: addresses of the three members of etcd, or of its only one (docs/fleet.md)'
  ),
  'hub-name': option('name', 'name of this hub; default: as in cluster.json'),
  'hub-url': option('url', 'address at which the other hubs reach this one'),
  'hub-ca': option('file', 'certificates to trust for other hubs, in PEM, instead of the usual ones'),
  'allow-http': toggle(
    'let hubs of other machines be reached at http: addresses, on a private network; https is safer'
  ),
  'etcd-ca': option('file', 'certificate of the authority of etcd, in PEM'),
  'etcd-cert': option('file', 'certificate of this hub for etcd, if etcd requires one'),
  'etcd-key': option('file', 'private key of that certificate'),
  'etcd-user': option('name', 'user of etcd; also SVC_ETCD_USER'),
  'etcd-password-file': option('file', 'file with the password of that user; also SVC_ETCD_PASSWORD')
} as const satisfies OptionTable

/** The values of `hubOptions`. */
export type HubWords = Options<typeof hubOptions>
