import { writeSync } from 'node:fs'
import { hasCode } from '../base/system-error.js'

/** The input of a pseudo-terminal. */
export interface PtyInput {
  /**
   * Types text, in order. Returns false, without taking any of it, if too much input is already queued because nobody
   * reads it. `onTaken` is called when the terminal has accepted all of it.
   */
  write(text: string, onTaken?: () => void): boolean
  /** Drops the queued input. */
  stop(): void
}

/** Maximum size of input that the terminal has not accepted yet. */
const maxWaitingBytes = 1024 * 1024
/** Delay before input that was not accepted is written again. The terminal takes 4 KiB at a time. */
const retryMs = 2
/** The delay if the program has read nothing meanwhile. */
const idleRetryMs = 20

/**
 * Creates the input of a terminal. Bytes are written at once and synchronously (the descriptor does not block), and
 * only while the stream that owns the descriptor is open. node-pty's own queue retries in a busy loop without a limit,
 * and continues after the descriptor is closed, when its number may belong to another file.
 */
export function createPtyInput({ fd, stream }: { fd: number; stream: { readonly destroyed: boolean } }): PtyInput {
  let waiting: Array<{ bytes: Buffer; onTaken: (() => void) | undefined }> = []
  let waitingBytes = 0
  let retry: NodeJS.Timeout | undefined

  function flush(): void {
    retry = undefined
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      const written = tryToWrite(first.bytes)
      if (written === undefined) return stop()
      waitingBytes -= written
      if (written < first.bytes.length) {
        first.bytes = first.bytes.subarray(written)
        retry = setTimeout(flush, written > 0 ? retryMs : idleRetryMs)
        return
      }
      waiting.shift()
      first.onTaken?.()
    }
  }

  /** Returns the number of bytes that were accepted, or undefined if the terminal no longer exists. */
  function tryToWrite(bytes: Buffer): number | undefined {
    if (stream.destroyed) return undefined
    try {
      return writeSync(fd, bytes)
    } catch (error) {
      return hasCode(error, 'EAGAIN') ? 0 : undefined
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
    write(text, onTaken) {
      const bytes = Buffer.from(text)
      if (waitingBytes + bytes.length > maxWaitingBytes) return false
      waiting.push({ bytes, onTaken })
      waitingBytes += bytes.length
      if (retry === undefined) flush()
      return true
    }
  }
}
