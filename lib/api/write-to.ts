import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { Caller } from '../auth/bearer.js'
import { Refusal } from '../base/refusal.js'
import { isDiskFull, messageOf } from '../base/system-error.js'
import { ndjson } from '../http/ndjson.js'
import type { Reply, Sink } from '../http/route.js'

export interface FileWriting {
  onBegin(expectedBytes: number): void
  onProgress(bytes: number): void
  signal: AbortSignal
}

const progressEveryMs = 100

/**
 * The operator on this machine may name an empty file to be written: then no byte need go through the socket. Answers
 * lines: `begin` with the expected bytes, `progress`, and `done` with what `work` gives, or `error`. Refuses: 403 for
 * anybody else, `cannot_write_there` for what is no such file, seen from here.
 */
export async function writeTo(
  path: string, actor: Caller, work: (file: FileHandle, writing: FileWriting) => Promise<object>
): Promise<Reply> {
  if (actor.role !== 'local') throw new Refusal('forbidden', 'forbidden', 'Only the operator on this machine may name a file: "to"')
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
  return isDiskFull(error) ? `there is no space left on the disk of "${path}"; make some, or choose another place` : messageOf(error)
}

async function openEmpty(path: string): Promise<FileHandle> {
  const refuse = (why: string, cause?: unknown): Refusal =>
    new Refusal('unavailable', 'cannot_write_there', `The server cannot write "${path}": ${why}`, { field: 'to', cause })
  if (!isAbsolute(path)) throw refuse('it is not an absolute path')
  const file = await open(path, constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0)).catch(error => {
    throw refuse((error as Error).message, error)
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

/**
 * Hands `work` a stream onto the sink of a reply; resolves when all that was written has arrived there. A client that
 * leaves between the last write and that moment fails this, not the process: the stream never lacks a listener.
 */
export async function throughStream(sink: Sink, work: (out: Writable) => Promise<unknown>): Promise<void> {
  const out = new Writable({
    highWaterMark: 1024 * 1024,
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
