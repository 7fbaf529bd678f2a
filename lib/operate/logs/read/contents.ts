import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { isRacy, readAt } from '../../../base/files.js'
import { isDiskFull, reasonOf, Refusal } from '../../../base/errors.js'
import { openAgain, type OpenedLog } from './open.js'

/** The uncompressed contents of a log file, addressed by byte. */
export interface Contents {
  /** Handle to read the contents from: the log file itself, or its decompressed copy. */
  handle: FileHandle
  size: number
  isCompressed: boolean
  release(): Promise<void>
}

/** Contents of a log file that may still be growing, because the file is being decompressed. */
export interface ComingContents {
  handle: FileHandle
  isCompressed: boolean
  /**
   * Resolves once `wanted` bytes are available, or all of them. Returns how many bytes there are and whether that is
   * all. Refuses: 413 `inflates_too_large`, 400 `broken_gzip`.
   */
  reach(wanted: number): Promise<Reached>
  release(): Promise<void>
}

/**
 * Returns the contents of an opened log as soon as their first bytes can be read. The contents own the log from now on:
 * releasing them closes it, and so does a failure.
 */
export async function contentsComing(log: OpenedLog, inflated: InflatedFiles): Promise<ComingContents> {
  const { handle, size } = log
  try {
    if (!(await isGzip(log))) {
      return {
        handle,
        isCompressed: false,
        reach: async () => ({ size, isWhole: true }),
        release: () => handle.close()
      }
    }
    const { release, ...coming } = await inflated.acquire(log)
    await handle.close()
    return { ...coming, isCompressed: true, release: async () => release() }
  } catch (error) {
    await handle.close().catch(() => {})
    throw error
  }
}

/** Returns the contents of an opened log when they are complete. An abort rejects with its reason. */
export async function contentsOf(log: OpenedLog, inflated: InflatedFiles, signal: AbortSignal): Promise<Contents> {
  const { handle, isCompressed, reach, release } = await contentsComing(log, inflated)
  try {
    const { size } = await unlessAborted(reach(Infinity), signal)
    return { handle, size, isCompressed, release }
  } catch (error) {
    await release()
    throw error
  }
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // It may fail after the caller has stopped waiting.
  work.catch(() => {})
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

/**
 * Whether the file is gzip, by its content (RFC 1952 §2.3): two magic bytes and the only defined method. Names are not
 * trusted, because a `.gz` file may be anything.
 */
async function isGzip({ handle, size }: OpenedLog): Promise<boolean> {
  if (size < 18) return false
  const head = await readAt(handle, 0, 3)
  return head[0] === 0x1f && head[1] === 0x8b && head[2] === 8
}

/*
 * Compressed rotations (`access.log.2.gz`), read as if they were not compressed. Deflate cannot be entered in the
 * middle, so a file is decompressed once, into an unnamed file in svc's tmp directory. A search reads that file while
 * it grows. It is kept for a minute after its last use, so paging through it costs no more than paging through a plain
 * file. Nothing of it survives the process, and only a few blocks are in memory.
 */

/** How many bytes can be read, and whether these are all. */
export interface Reached {
  size: number
  isWhole: boolean
}

/** Decompressed contents, from their first byte on. The handle belongs to the cache. */
export interface Inflated {
  handle: FileHandle
  /** Resolves once `wanted` bytes are decompressed, or all. Refuses: 413 `inflates_too_large`, 400 `broken_gzip`. */
  reach(wanted: number): Promise<Reached>
  release(): void
}

/** The cache of decompressed files. */
export type InflatedFiles = ReturnType<typeof createInflatedFiles>

interface Entry {
  /** Key of the original file. If that has changed, the file is decompressed again. */
  key: string
  handle: Promise<FileHandle>
  growth: Growth
  users: number
  giveUp: AbortController
  idle: NodeJS.Timeout | undefined
}

const defaultMaxBytes = 4 * 1024 ** 3
const keptMs = 60_000
const blockBytes = 256 * 1024
/** Maximum number of unused files that are kept. The least recently used one is removed first. */
const maxIdle = 4

/** Creates the cache. `tmp` is the directory of its files, `maxBytes` the maximum uncompressed size of a file. */
export function createInflatedFiles({ tmp, maxBytes = defaultMaxBytes }: { tmp: string; maxBytes?: number }) {
  const entries = new Map<string, Entry>()
  let made = 0

  function begin(key: string, log: OpenedLog): Entry {
    const giveUp = new AbortController()
    const handle = createNameless(join(tmp, `inflated-${process.pid}-${made++}`))
    const growth = createGrowth(grown => inflate(log, handle, { maxBytes, signal: giveUp.signal, grown }))
    const entry: Entry = { key, handle, growth, users: 0, giveUp, idle: undefined }
    growth.ended.catch(() => {
      if (entries.get(key) === entry) entries.delete(key)
      if (entry.users === 0) drop(entry)
    })
    // Its next release drops one that is not in the map.
    if (!isRacy(log, Date.now())) entries.set(key, entry)
    return entry
  }

  function drop(entry: Entry): void {
    clearTimeout(entry.idle)
    if (entries.get(entry.key) === entry) entries.delete(entry.key)
    entry.giveUp.abort(new Error('The decompressed file is no longer needed'))
    entry.growth.ended
      .catch(() => {})
      .then(() => entry.handle)
      .then(handle => handle.close())
      .catch(() => {})
  }

  function release(entry: Entry): void {
    entry.users--
    if (entry.users > 0) return
    // Decompression has failed, or the log has changed since.
    if (entries.get(entry.key) !== entry) return drop(entry)
    entry.idle = setTimeout(drop, keptMs, entry)
    entry.idle.unref()
    // The most recently used entry is the last one of the map.
    entries.delete(entry.key)
    entries.set(entry.key, entry)
    const idle = [...entries.values()].filter(({ users }) => users === 0)
    for (const oldest of idle.slice(0, -maxIdle)) drop(oldest)
  }

  return {
    /**
     * Returns the decompressed contents of a log. After their last release, decompression continues and the file is kept
     * for a minute, because a user who has found something opens the file next.
     */
    async acquire(log: OpenedLog): Promise<Inflated> {
      const key = `${log.identity} ${log.size} ${log.mtimeMs}`
      const entry = entries.get(key) ?? begin(key, log)
      clearTimeout(entry.idle)
      entry.users++
      try {
        const handle = await entry.handle
        return { handle, reach: entry.growth.reach, release: once(() => release(entry)) }
      } catch (error) {
        release(entry)
        throw error
      }
    },
    async close(): Promise<void> {
      for (const entry of [...entries.values()]) drop(entry)
    }
  }
}

type Growth = ReturnType<typeof createGrowth>

/** Creates a growing size and lets callers wait until it reaches a value. `work` reports each new size. */
function createGrowth(work: (grown: (size: number) => void) => Promise<void>) {
  const waiting: Array<() => void> = []
  const wake = (): void => {
    for (const resolve of waiting.splice(0)) resolve()
  }
  let size = 0
  let isWhole = false
  let failure: unknown
  const ended = work(now => {
    size = now
    wake()
  })
  ended
    .then(
      () => {
        isWhole = true
      },
      error => {
        failure = error
      }
    )
    .finally(wake)
  return {
    async reach(wanted: number): Promise<Reached> {
      for (;;) {
        if (isWhole || size >= wanted) return { size, isWhole }
        if (failure !== undefined) throw failure
        await new Promise<void>(resolve => {
          waiting.push(resolve)
        })
      }
    },
    ended
  }
}

async function createNameless(name: string): Promise<FileHandle> {
  const handle = await open(name, 'wx+', 0o600)
  // Windows keeps the name until the handle is closed.
  await unlink(name).catch(() => {})
  return handle
}

interface Inflating {
  maxBytes: number
  signal: AbortSignal
  grown(size: number): void
}

async function inflate(log: OpenedLog, target: Promise<FileHandle>, inflating: Inflating): Promise<void> {
  try {
    const handle = await target
    // The log's own handle may be closed before decompression has ended.
    const source = await openAgain(log)
    try {
      await fill(handle, source, inflating)
    } finally {
      await source.close()
    }
  } catch (error) {
    throw explain(error as NodeJS.ErrnoException, log.path)
  }
}

async function fill(handle: FileHandle, source: FileHandle, { maxBytes, signal, grown }: Inflating): Promise<void> {
  let size = 0
  await pipeline(
    blocksOf(source),
    createGunzip({ chunkSize: blockBytes }),
    async chunks => {
      for await (const chunk of chunks as AsyncIterable<Buffer>) {
        if (size + chunk.length > maxBytes) throw new Refusal('too_large', 'inflates_too_large', '')
        for (let at = 0; at < chunk.length; ) {
          at += (await handle.write(chunk, at, chunk.length - at, size + at)).bytesWritten
        }
        size += chunk.length
        grown(size)
      }
    },
    { signal }
  )
}

/**
 * Reads the source in blocks. A stream of the handle would close it if the pipeline fails, but the handle belongs to
 * its owner.
 */
async function* blocksOf(source: FileHandle): AsyncGenerator<Buffer> {
  for (let at = 0; ; ) {
    const { bytesRead, buffer } = await source.read(Buffer.allocUnsafeSlow(blockBytes), 0, blockBytes, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function explain(error: NodeJS.ErrnoException, path: string): Error {
  if (error instanceof Refusal) {
    return new Refusal('too_large', error.code, `Cannot show "${path}": its uncompressed size exceeds the limit`)
  }
  if (error.code?.startsWith('Z_')) {
    return new Refusal('invalid', 'broken_gzip', `Cannot show "${path}": the gzip file is incomplete or damaged`, {
      cause: error
    })
  }
  if (isDiskFull(error)) {
    return new Refusal('unavailable', 'no_space', `Cannot decompress "${path}": ${reasonOf(error)}`, { cause: error })
  }
  return error
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    work()
  }
}

/*
 * Converts bytes of a log to lines: where they may be cut, how they are decoded, and when they are not text.
 */

/** The byte that ends a line. */
export const newline = 10
const carriageReturn = 13

/** Maximum number of continuation bytes in one UTF-8 character. */
const maxContinuations = 3

/**
 * Returns the lines of whole text, without `
 * ` or `\r
 * `. Text after the last newline is a line too, unless it is empty. Invalid bytes become U+FFFD. A hole before
 * a line is left out, see `withoutHole`.
 */
export function linesOf(bytes: Buffer): string[] {
  const text = bytes.subarray(leadingZeros(bytes)).toString('utf8')
  if (text === '') return []
  const lines = text.split('\n')
  if (text.endsWith('\n')) lines.pop()
  if (!/[\r\0]/.test(text)) return lines
  return lines.map(line => withoutHole(line.endsWith('\r') ? line.slice(0, -1) : line))
}

/**
 * Returns a line without the zeros at its start. Nobody wrote them: a file was truncated, and its writer continued at
 * its old position.
 */
export function withoutHole(line: string): string {
  return line.startsWith('\0') ? line.replace(/^\0+/, '') : line
}

/** Returns the line from `from` to `to`, which is its newline or the end, without a final `\r`. */
export function lineText(bytes: Buffer, from: number, to: number): string {
  const end = to > from && bytes[to - 1] === carriageReturn ? to - 1 : to
  return withoutHole(bytes.toString('utf8', from, end))
}

/** Moves a cut back to the start of a character. Returns the cut itself if there is none within reach (not UTF-8). */
export function cutBefore(bytes: Buffer, cut: number): number {
  for (let at = cut; at >= 0 && cut - at <= maxContinuations; at--) if (startsCharacter(bytes[at])) return at
  return cut
}

/**
 * Moves a cut forward to the start of a character or to the end. Returns the cut itself if there is none within reach.
 */
export function cutAfter(bytes: Buffer, cut: number): number {
  for (let at = cut; at <= bytes.length && at - cut <= maxContinuations; at++) if (startsCharacter(bytes[at])) return at
  return cut
}

function startsCharacter(byte: number | undefined): boolean {
  return byte === undefined || (byte & 0xc0) !== 0x80
}

/** Number of bytes that `isBinary` checks at the start and at the end. */
export const sampleBytes = 32 * 1024
/** Control characters that text does not use. It uses backspace, tab, line ends, form feed and escape. */
const controls = /[\0-\x07\x0e-\x1a\x1c-\x1f\x7f]/g

/**
 * Whether bytes are not text: more than one character in a hundred is a control character. A single NUL must not hide a
 * log, because then anyone who can write one line could hide all others. Zeros before a line are a hole (`withoutHole`).
 */
export function isBinary(bytes: Buffer): boolean {
  const sample = (from: number, to?: number): string => bytes.toString('latin1', from, to).replace(/(^|\n)\0+/g, '$1')
  const head = sample(0, sampleBytes)
  const tail = bytes.length <= sampleBytes ? '' : sample(Math.max(sampleBytes, bytes.length - sampleBytes))
  if (head.length + tail.length === 0) return bytes.length > 0
  const count = (head.match(controls)?.length ?? 0) + (tail.match(controls)?.length ?? 0)
  return count * 100 >= head.length + tail.length
}

/** Returns how many zeros the bytes begin with. */
function leadingZeros(bytes: Buffer): number {
  if (bytes[0] !== 0) return 0
  const rest = bytes.toString('latin1').search(/[^\0]/)
  return rest === -1 ? bytes.length : rest
}
