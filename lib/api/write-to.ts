import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { Caller } from '../auth/bearer.js'
import { isDiskFull, messageOf, reasonOf, Refusal } from '../base/errors.js'
import { ndjson } from '../http/streams.js'
import type { Reply, Sink } from '../http/core/route.js'

/** Callbacks and signal for the work that writes the file. */
export interface FileWriting {
  onBegin(expectedBytes: number): void
  onProgress(bytes: number): void
  signal: AbortSignal
}

const progressEveryMs = 100

/**
 * Writes to an empty file that the operator on this machine named, so that the bytes do not pass through the socket.
 * Answers NDJSON lines: `begin` with the expected bytes, `progress`, then `done` with the result of `work`, or `error`.
 * Refuses: 403 for other callers, 503 `cannot_write_there` for a path that is not an empty file.
 */
export async function writeTo(
  path: string,
  actor: Caller,
  work: (file: FileHandle, writing: FileWriting) => Promise<object>
): Promise<Reply> {
  if (actor.role !== 'local')
    throw new Refusal(
      'forbidden',
      'forbidden',
      '"to" is only allowed through the socket in the data directory of the server'
    )
  return ndjson(async (write, signal) => {
    const file = await openEmpty(path)
    try {
      let toldAtMs = 0
      const onProgress = (bytes: number): void => {
        if (Date.now() - toldAtMs < progressEveryMs) return
        toldAtMs = Date.now()
        write({ event: 'progress', bytes }).catch(() => {})
      }
      const onBegin = (expectedBytes: number): void => void write({ event: 'begin', expectedBytes }).catch(() => {})
      await write({ event: 'done', ...(await work(file, { onBegin, onProgress, signal })) })
    } catch (error) {
      if (!(error instanceof Refusal || (error instanceof Error && 'syscall' in error)) || signal.aborted) throw error
      await write({ event: 'error', error: sentenceOf(error, path) })
    } finally {
      await file.close()
    }
  })
}

function sentenceOf(error: unknown, path: string): string {
  return isDiskFull(error)
    ? `${reasonOf(error)} at "${path}". Free some space, or choose another place`
    : messageOf(error)
}

async function openEmpty(path: string): Promise<FileHandle> {
  const refuse = (why: string, cause?: unknown): Refusal =>
    new Refusal('unavailable', 'cannot_write_there', `Cannot write "${path}" on the server: ${why}`, {
      field: 'to',
      cause
    })
  if (!isAbsolute(path)) throw refuse('it is not an absolute path')
  const file = await open(path, constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0)).catch(error => {
    throw refuse(reasonOf(error), error)
  })
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > 0) throw refuse('it is not an empty file')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** What `throughStream` holds while the client does not read. */
export const throughBytes = 1024 * 1024

/**
 * Calls `work` with a stream that writes to the sink of a reply. Resolves when the sink has taken all bytes. If the
 * client disconnects after the last write, this rejects; the stream always has an error listener, so the process does
 * not crash.
 */
export async function throughStream(sink: Sink, work: (out: Writable) => Promise<unknown>): Promise<void> {
  const out = new Writable({
    highWaterMark: throughBytes,
    write(chunk: Uint8Array, _encoding, done) {
      sink.write(chunk).then(() => done(), done)
    }
  })
  const ended = finished(out)
  ended.catch(() => {})
  await work(out)
  out.end()
  await ended
}
