import { writeSync } from 'node:fs'

/** What is typed into a pseudo-terminal. */
export interface PtyInput {
  /** In order. False: so much waits already, because nobody reads it, that nothing of this was taken. */
  write(text: string): boolean
  /** Drops what waits. */
  stop(): void
}

/** Of input that the terminal does not take yet. */
const maxWaitingBytes = 1024 * 1024
/** Before input that was not taken is offered again. */
const retryMs = 10

/**
 * Bytes are written at once, and synchronously (the descriptor does not block), only while the stream that owns the
 * descriptor is open: node-pty's own queue tries again in a busy loop, without a limit, and goes on when the descriptor
 * is closed: by then it may be somebody else's file that has the number.
 */
export function createPtyInput({ fd, stream }: { fd: number; stream: { readonly destroyed: boolean } }): PtyInput {
  let waiting: Buffer[] = []
  let waitingBytes = 0
  let retry: NodeJS.Timeout | undefined

  function flush(): void {
    retry = undefined
    for (let bytes = waiting[0]; bytes !== undefined; bytes = waiting[0]) {
      const written = tryToWrite(bytes)
      if (written === undefined) return stop()
      waitingBytes -= written
      if (written < bytes.length) {
        waiting[0] = bytes.subarray(written)
        retry = setTimeout(flush, retryMs)
        return
      }
      waiting.shift()
    }
  }

  /** How many bytes were taken; undefined: there is no terminal any more. */
  function tryToWrite(bytes: Buffer): number | undefined {
    if (stream.destroyed) return undefined
    try {
      return writeSync(fd, bytes)
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 0 : undefined
    }
  }

  function stop(): void {
    clearTimeout(retry)
    retry = undefined
    waiting = []
    waitingBytes = 0
  }

  return {
    stop,
    write(text) {
      const bytes = Buffer.from(text)
      if (waitingBytes + bytes.length > maxWaitingBytes) return false
      waiting.push(bytes)
      waitingBytes += bytes.length
      if (retry === undefined) flush()
      return true
    }
  }
}
