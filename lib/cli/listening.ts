import { resolve } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { usage, type Options, type OptionTable } from './args.js'

/** The options of `serve` that say where it listens, and how. None has a default here: what is not given may not clash. */
export const listeningOptions = {
  host: { type: 'text', value: 'address', help: 'the address to listen on (default 127.0.0.1)' },
  port: { type: 'count', alias: 'p', value: 'number', maximum: 65_535, help: 'the port (default 5431); 0 takes a free one' },
  socket: { type: 'text', value: 'path', help: 'listen on a Unix socket instead, for a proxy on this machine' },
  'socket-mode': { type: 'text', value: 'mode', help: 'who may connect to it, as for chmod (default 0660)' },
  'tls-cert': { type: 'text', value: 'file', help: 'speak HTTPS with this certificate chain, in PEM; a renewed one is noticed' },
  'tls-key': { type: 'text', value: 'file', help: 'its key, in PEM, without a passphrase' }
} as const satisfies OptionTable

export type ListeningWords = Options<typeof listeningOptions>

export interface Listening {
  host?: string
  port?: number
  socket?: { path: string; mode: number }
  tls?: { cert: string; key: string }
}

const defaultSocketMode = '0660'

/** What the words mean; paths absolute. Refuses what contradicts itself, with the kind `usage`. */
export function listeningOf(words: ListeningWords, cwd: string): Listening {
  const { host, port, socket } = words
  const { 'tls-cert': cert, 'tls-key': key, 'socket-mode': mode } = words
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? '--tls-cert' : '--tls-key'
    throw usage(missing, `${missing} is missing: --tls-cert and --tls-key belong together`)
  }
  if (socket === undefined) {
    if (mode !== undefined) throw usage('--socket-mode', '--socket-mode says nothing without --socket')
    return {
      ...(host !== undefined && { host }),
      ...(port !== undefined && { port }),
      ...(cert !== undefined && key !== undefined && { tls: { cert: resolve(cwd, cert), key: resolve(cwd, key) } })
    }
  }
  const other = port !== undefined ? '--port' : host !== undefined ? '--host' : cert !== undefined ? '--tls-cert' : undefined
  if (other !== undefined) {
    const why = other === '--tls-cert' ? 'on a socket TLS is the proxy\'s business' : 'the server listens at one place'
    throw usage(other, `${other} and --socket exclude each other: ${why}`)
  }
  if (process.platform === 'win32') {
    throw new Refusal('unsupported', 'no_sockets', '--socket cannot be used: on Windows there are no such sockets; use --port', { field: '--socket' })
  }
  return { socket: { path: resolve(cwd, socket), mode: modeOf(mode ?? defaultSocketMode) } }
}

function modeOf(text: string): number {
  if (/^0?[0-7]{3}$/.test(text)) return Number.parseInt(text, 8)
  throw usage('--socket-mode', `--socket-mode cannot be "${text}": it is three or four octal digits, like 0660`)
}

/** The same options as words, for another process. */
export function listeningWords(words: ListeningWords): string[] {
  return (Object.keys(listeningOptions) as Array<keyof ListeningWords>).flatMap(flag => {
    const value = words[flag]
    return value === undefined ? [] : [`--${flag}`, String(value)]
  })
}
