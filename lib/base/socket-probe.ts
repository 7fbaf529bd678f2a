import { connect } from 'node:net'
import { hasCode } from './errors.js'

/**
 * Maximum length of the path of a Unix socket in bytes: sun_path of sockaddr_un has 108 on Linux, 104 elsewhere,
 * including a NUL.
 */
export const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103

/**
 * Whether a process listens on the Unix socket, or Windows pipe, at `path`. False only if that is certain: a full
 * backlog or a denied permission means that a process listens.
 */
export function isListening(path: string): Promise<boolean> {
  if (process.platform !== 'win32' && Buffer.byteLength(path) > maxSocketPathBytes) return Promise.resolve(false)
  return new Promise(resolve => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', error => resolve(!hasCode(error, 'ECONNREFUSED', 'ENOENT', 'ENOTSOCK')))
  })
}
