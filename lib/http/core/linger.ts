import type { IncomingMessage } from 'node:http'

/**
 * Limits of reading the rest of a body after the request was refused.
 *
 * If a socket is closed while it contains unread bytes, the kernel answers with a reset, and a reset overtakes the
 * reply. The client, which is still uploading, sees "connection reset" and never learns why. So the rest of the body is
 * read and dropped for a while, as nginx does (`lingering_close`). After `maxBytes` nothing more is read, but the
 * socket stays open until one of the time limits has passed. A client that reads while it sends has the reply long
 * before.
 */
export interface LingerLimits {
  /** Maximum number of bytes of the body that are read and dropped. */
  maxBytes: number
  /** Maximum time after the reply. */
  totalMs: number
  /** Maximum time without a byte from the client. */
  idleMs: number
}

/** Default limits of reading the rest of a body. */
export const defaultLingerLimits: LingerLimits = { maxBytes: 64 * 1024 * 1024, totalMs: 30_000, idleMs: 5_000 }

/**
 * Drops the rest of the body. Resolves with the reason why it stopped: everything was read, the client is gone, or a
 * limit was reached.
 */
export function dropRest(request: IncomingMessage, limits: LingerLimits): Promise<'read' | 'gone' | 'limit'> {
  if (request.readableEnded) return Promise.resolve('read')
  if (request.destroyed) return Promise.resolve('gone')
  return new Promise(resolve => {
    let droppedBytes = 0
    const total = setTimeout(() => stop('limit'), limits.totalMs)
    const idle = setTimeout(() => stop('limit'), limits.idleMs)
    const onData = (chunk: Buffer): void => {
      idle.refresh()
      droppedBytes += chunk.length
      if (droppedBytes > limits.maxBytes) request.pause()
    }
    const onEnd = (): void => stop('read')
    const onClose = (): void => stop('gone')
    function stop(why: 'read' | 'gone' | 'limit'): void {
      clearTimeout(total)
      clearTimeout(idle)
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      resolve(why)
    }
    request.on('error', onClose).on('close', onClose).on('end', onEnd).on('data', onData)
    request.resume()
  })
}
