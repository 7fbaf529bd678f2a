import type { IncomingMessage } from 'node:http'

/**
 * What a client still sends after it has been refused.
 *
 * Closing a socket with unread bytes in it makes the kernel answer with a reset, and a reset overtakes the reply: the
 * client that is still uploading sees "connection reset" and never learns why. So the rest of the body is read and
 * dropped for a while, as nginx does (`lingering_close`), within three limits. Past the limit of bytes nothing is read
 * any more, and the socket stays open until one of the limits of time has passed: whoever reads while sending has had
 * the reply long before.
 */
export interface LingerLimits {
  /** Of the body, read and dropped. */
  maxBytes: number
  /** From the reply on. */
  totalMs: number
  /** Without a byte from the client. */
  idleMs: number
}

export const defaultLingerLimits: LingerLimits = { maxBytes: 64 * 1024 * 1024, totalMs: 30_000, idleMs: 5_000 }

/** Drops the rest of the body. Resolves with why it stopped: all was read, the client went away, or a limit came. */
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
