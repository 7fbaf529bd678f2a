import { resolve } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { type Options, type OptionTable, usage } from '../command.js'

/** An option of `serve` and `agent`. */
export const allowSystemPathsOption = {
  type: 'switch',
  help: 'allow projects to deploy to system directories, such as /etc or .ssh (docs/security.md)'
} as const

/** An option of `serve` and `agent`. */
export const requireSignaturesOption = {
  type: 'switch',
  help: 'take only releases that a key in keys/allowed_signers of the data directory has signed; no token changes that'
} as const

/** An option of `serve` and `agent`. */
export const logFormatOption = {
  type: 'text',
  choices: ['text', 'json'],
  default: 'text',
  help: 'json: print each line as an object with time, level and message, and never print the admin token'
} as const

/** The options of `serve` for listening. None has a default here, so that only given options can conflict. */
export const listeningOptions = {
  host: { type: 'text', value: 'address', help: 'address to listen on (default 127.0.0.1)' },
  port: {
    type: 'count',
    alias: 'p',
    value: 'number',
    maximum: 65_535,
    help: 'port to listen on (default 5431); 0 chooses a free one'
  },
  socket: { type: 'text', value: 'path', help: 'listen on a Unix socket instead, for a proxy on this machine' },
  'socket-mode': { type: 'text', value: 'mode', help: 'permissions of the socket, as for chmod (default 0660)' },
  'tls-cert': {
    type: 'text',
    value: 'file',
    help: 'serve HTTPS with this certificate chain in PEM; reloaded when it is renewed'
  },
  'tls-key': { type: 'text', value: 'file', help: 'private key of the certificate in PEM, without a passphrase' }
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
  store: {
    type: 'text',
    value: 'etcd:url,…',
    help: 'be a hub of a cluster: addresses of the three members of etcd, or of its only one (docs/fleet.md)'
  },
  'hub-name': { type: 'text', value: 'name', help: 'name of this hub; default: as in cluster.json' },
  'hub-url': { type: 'text', value: 'url', help: 'address at which the other hubs reach this one' },
  'hub-ca': {
    type: 'text',
    value: 'file',
    help: 'certificates to trust for other hubs, in PEM, instead of the usual ones'
  },
  'allow-http': {
    type: 'switch',
    help: 'let hubs of other machines be reached at http: addresses, on a private network; https is safer'
  },
  'etcd-ca': { type: 'text', value: 'file', help: 'certificate of the authority of etcd, in PEM' },
  'etcd-cert': { type: 'text', value: 'file', help: 'certificate of this hub for etcd, if etcd requires one' },
  'etcd-key': { type: 'text', value: 'file', help: 'private key of that certificate' },
  'etcd-user': { type: 'text', value: 'name', help: 'user of etcd; also SVC_ETCD_USER' },
  'etcd-password-file': {
    type: 'text',
    value: 'file',
    help: 'file with the password of that user; also SVC_ETCD_PASSWORD'
  }
} as const satisfies OptionTable

/** The values of `hubOptions`. */
export type HubWords = Options<typeof hubOptions>
