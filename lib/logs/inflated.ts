/*
 * Compressed rotations (`access.log.2.gz`) as if they were not compressed. Deflate cannot be entered in the middle, so
 * a file that is looked at is inflated once, into a file without a name in svc's tmp directory, which is kept for a
 * minute after its last use: paging through it costs what paging through a plain file costs. Nothing of it survives
 * the process, and memory holds a few blocks.
 */
import { createReadStream } from 'node:fs'
import { open, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Refusal } from '../base/refusal.js'
import type { OpenedLog } from './open.js'

/** The inflated contents; the handle stays the cache's own. */
export interface Inflated {
  handle: FileHandle
  size: number
  release(): void
}

export interface InflatedFiles {
  /** Refuses: 413 `inflates_too_large`, 400 `broken_gzip`. An abort rejects; the last one to go stops the work. */
  acquire(log: OpenedLog, signal: AbortSignal): Promise<Inflated>
  close(): Promise<void>
}

interface Entry {
  /** Of what it was made: a file that has changed is inflated anew. */
  key: string
  ready: Promise<{ handle: FileHandle; size: number }>
  users: number
  giveUp: AbortController
  idle: NodeJS.Timeout | undefined
}

const defaultMaxBytes = 4 * 1024 ** 3
const keptMs = 60_000
/** Kept without users; the one used longest ago goes first. */
const maxIdle = 4

export function createInflatedFiles(
  { tmp, maxBytes = defaultMaxBytes }: { tmp: string; maxBytes?: number }
): InflatedFiles {
  const entries = new Map<string, Entry>()
  let made = 0

  function begin(key: string, log: OpenedLog): Entry {
    const giveUp = new AbortController()
    const name = join(tmp, `inflated-${process.pid}-${made++}`)
    const entry: Entry = { key, ready: inflate(log, { name, maxBytes, signal: giveUp.signal }), users: 0, giveUp, idle: undefined }
    entry.ready.catch(() => { if (entries.get(key) === entry) entries.delete(key) })
    entries.set(key, entry)
    return entry
  }

  function drop(entry: Entry): void {
    clearTimeout(entry.idle)
    if (entries.get(entry.key) === entry) entries.delete(entry.key)
    entry.giveUp.abort(new Error('Nobody waits for the inflated file any more'))
    entry.ready.then(({ handle }) => handle.close()).catch(() => {})
  }

  function release(entry: Entry, isReady: boolean): void {
    entry.users--
    if (entry.users > 0) return
    if (!isReady) return drop(entry)
    entry.idle = setTimeout(drop, keptMs, entry)
    entry.idle.unref()
    // Last used is last in the map.
    if (entries.delete(entry.key)) entries.set(entry.key, entry)
    const idle = [...entries.values()].filter(({ users }) => users === 0)
    for (const oldest of idle.slice(0, -maxIdle)) drop(oldest)
  }

  return {
    async acquire(log, signal) {
      const key = `${log.identity} ${log.size} ${log.mtimeMs}`
      const entry = entries.get(key) ?? begin(key, log)
      clearTimeout(entry.idle)
      entry.users++
      try {
        const { handle, size } = await unlessAborted(entry.ready, signal)
        return { handle, size, release: once(() => release(entry, true)) }
      } catch (error) {
        release(entry, false)
        throw error
      }
    },
    async close() {
      for (const entry of [...entries.values()]) drop(entry)
    }
  }
}

async function inflate(
  log: OpenedLog, { name, maxBytes, signal }: { name: string; maxBytes: number; signal: AbortSignal }
): Promise<{ handle: FileHandle; size: number }> {
  // The log's own handle may be closed before this is done.
  const source = await open(log.path, 'r')
  try {
    const handle = await open(name, 'wx+', 0o600)
    try {
      // Windows keeps the name until the handle is closed.
      await unlink(name).catch(() => {})
      const size = await fill(handle, source, { maxBytes, signal })
      return { handle, size }
    } catch (error) {
      await handle.close()
      throw explain(error as NodeJS.ErrnoException, log.path)
    }
  } finally {
    await source.close()
  }
}

async function fill(
  handle: FileHandle, source: FileHandle, { maxBytes, signal }: { maxBytes: number; signal: AbortSignal }
): Promise<number> {
  let size = 0
  const input = createReadStream('', { fd: source, autoClose: false, start: 0, highWaterMark: 256 * 1024 })
  await pipeline(input, createGunzip({ chunkSize: 256 * 1024 }), async chunks => {
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      if (size + chunk.length > maxBytes) throw new Refusal('too_large', 'inflates_too_large', '')
      for (let at = 0; at < chunk.length;) {
        at += (await handle.write(chunk, at, chunk.length - at, size + at)).bytesWritten
      }
      size += chunk.length
    }
  }, { signal })
  return size
}

function explain(error: NodeJS.ErrnoException, path: string): Error {
  if (error instanceof Refusal) {
    return new Refusal('too_large', error.code, `"${path}" cannot be shown: it is too large once it is inflated`)
  }
  if (error.code?.startsWith('Z_')) {
    return new Refusal('invalid', 'broken_gzip', `"${path}" cannot be shown: it is no complete gzip file`, { cause: error })
  }
  if (error.code === 'ENOSPC') {
    return new Refusal('unavailable', 'no_space', `"${path}" cannot be inflated: svc's disk is full`, { cause: error })
  }
  return error
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let onAbort = (): void => {}
  try {
    return await Promise.race([
      work,
      new Promise<never>((_, reject) => {
        onAbort = () => reject(signal.reason as Error)
        signal.addEventListener('abort', onAbort)
      })
    ])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    work()
  }
}
