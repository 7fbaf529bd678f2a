/* One TCP connection that tests whether a service listens. Nothing is sent. */
import { connect } from 'node:net'
import { reasonOf } from '../base/errors.js'
import { reach, Unreachable, type ReachOptions } from './reach.js'

/** A connection to open. */
export interface TcpProbe extends ReachOptions {
  host: string
  port: number
  timeoutMs: number
  signal: AbortSignal
}

/** Opens and closes a connection. Returns null, or why that failed. Rejects only with the signal's reason. */
export async function probeTcp(probe: TcpProbe): Promise<string | null> {
  const { port, timeoutMs, signal } = probe
  try {
    const { address, family } = await reach(probe.host, probe)
    signal.throwIfAborted()
    return await open({ host: address, port, family }, timeoutMs, signal)
  } catch (error) {
    if (error instanceof Unreachable) return error.message
    throw error
  }
}

function open(
  place: { host: string; port: number; family: number },
  timeoutMs: number,
  signal: AbortSignal
): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const socket = connect(place)
    const end = (settle: () => void): void => {
      clearTimeout(limit)
      signal.removeEventListener('abort', abort)
      settle()
      socket.destroy()
    }
    const abort = (): void => end(() => reject(signal.reason as Error))
    const limit = setTimeout(() => end(() => resolve(`no connection within ${timeoutMs / 1000} s`)), timeoutMs)
    signal.addEventListener('abort', abort, { once: true })
    socket.on('connect', () => end(() => resolve(null)))
    socket.on('error', error => end(() => resolve(reasonOf(error))))
  })
}
