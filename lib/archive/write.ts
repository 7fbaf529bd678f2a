/*
 * Writing a zip with yazl: entries in the order in which they come, written front to back, so that `out` may be a
 * socket as well as a file.
 *
 * yazl looks through all entries for each one it writes, and hands every file through streams and the thread pool. So
 * sources are packed in segments, zips of their own with some of them each, by threads that do nothing else
 * (segment-threads.ts), and joined (join.ts) as they are finished. What is large is streamed when its turn comes, while
 * the threads go on with what follows. measured: bench/pack
 */
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { Readable, type Writable } from 'node:stream'
import { ZipFile } from 'yazl'
import { closing, type Defer } from '../base/closing.js'
import { hastenCrc } from './hasten.js'
import { createJoining, tailBytes } from './join.js'
import { packingOf, packSegment, readOnly } from './segment.js'
import { createSegmentThreads } from './segment-threads.js'
import { checkOpened, checkSourceName, sourceChanged, sourceUnreadable, type LastSource, type ZipSource } from './source.js'

export interface ZipProgress {
  entries: number
  /** Of the sources, before compression. */
  bytes: number
}

export interface WriteZipOptions {
  /** 0 (store) to 9. */
  level?: number
  /** Called as the zip is written, with what was read for it. */
  onProgress?: (progress: ZipProgress) => void
  last?: LastSource
  signal?: AbortSignal | undefined
  /** Of the machine, or of the container; for tests. */
  memoryBytes?: number
}

export interface ZipWritten extends ZipProgress {
  /** Of the zip. */
  zipBytes: number
}

export const defaultLevel = 6
type AnyIterable<T> = Iterable<T> | AsyncIterable<T>

/** A segment has no more than these: memory holds some of them at a time, as they are and packed. */
const segmentBytes = 4 * 1024 * 1024
const segmentEntries = 256
/** A larger file is streamed; one that is larger than a segment is one by itself. */
const maxWholeBytes = 8 * 1024 * 1024
/**
 * With less memory than `scarceBytes`, as in a small container, files are streamed from here on: half as fast, and in
 * less than a third of the memory. measured: bench/pack
 */
const maxScarceWholeBytes = 512 * 1024
const scarceBytes = 1024 * 1024 * 1024
const readBytes = 256 * 1024

/**
 * Writes a zip of `sources` to `out`, which stays open: the one who opened it ends it, or throws it away when this
 * rejects. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file; (`invalid`)
 * name_not_packable. An aborted signal's reason is thrown unchanged.
 */
export async function writeZip(
  sources: AnyIterable<ZipSource>, out: Writable, options: WriteZipOptions = {}
): Promise<ZipWritten> {
  const { level = defaultLevel, onProgress = () => {}, last, signal, memoryBytes = availableBytes() } = options
  signal?.throwIfAborted()
  return closing(async defer => {
    const written: ZipWritten = { entries: 0, bytes: 0, zipBytes: 0 }
    // The first failure of any part ends the others, and is the one that travels.
    const ending = new AbortController()
    const fail = (error: unknown): void => ending.abort(error)
    const ended = new Promise<never>((_, reject) => ending.signal.addEventListener('abort', () => reject(ending.signal.reason)))
    ended.catch(() => {})
    const abort = (): void => fail(signal?.reason)
    const close = (): void => fail(new Error('the output was closed before the zip was complete'))
    signal?.addEventListener('abort', abort)
    out.on('error', fail).on('close', close)
    defer(() => {
      signal?.removeEventListener('abort', abort)
      out.off('error', fail).off('close', close)
    })
    if (out.destroyed) close()

    const progress = (): void => onProgress({ entries: written.entries, bytes: written.bytes })
    const joining = createJoining()
    async function put(bytes: Uint8Array): Promise<void> {
      ending.signal.throwIfAborted()
      written.zipBytes += bytes.length
      if (!out.write(bytes)) await Promise.race([once(out, 'drain'), ended])
    }
    async function putLarge(source: ZipSource): Promise<void> {
      const onRead = (bytes: number): void => {
        written.bytes += bytes
        progress()
      }
      const held = createHolding(tailBytes(source.path), put)
      for await (const bytes of packLarge(source, { level, onRead, signal: ending.signal })) await held.take(bytes)
      const { tail, bytes } = held.rest()
      await put(tail.subarray(0, tail.length - (bytes - joining.take(tail, bytes))))
    }
    async function putSegment(zip: Buffer, sources: readonly ZipSource[]): Promise<void> {
      await put(zip.subarray(0, joining.take(zip, zip.length)))
      for (const source of sources) if (source.kind === 'file') written.bytes += source.bytes
    }
    async function work(): Promise<void> {
      for await (const { sources: some, ready } of packAhead(sources, { level, memoryBytes, defer })) {
        ending.signal.throwIfAborted()
        const zip = await Promise.race([ready, ended])
        written.entries += some.length
        if (zip === null) await putLarge(some[0] as ZipSource)
        else await putSegment(zip, some)
        progress()
      }
      if (last !== undefined) {
        const contents = last.contents()
        const source: ZipSource = { ...last, kind: 'file', source: contents, bytes: contents.length }
        await putSegment(Buffer.from(await packSegment([source], level)), [source])
      }
      await put(joining.end())
    }
    await work().catch(fail)
    ending.signal.throwIfAborted()
    return written
  })
}

interface Prepared {
  sources: readonly ZipSource[]
  /** A zip of them; null: it is one that is large, and read when its turn comes. */
  ready: Promise<Buffer | null>
}

/** Infinite in a container without a limit of its own, in words of some versions; Node 18 does not say. */
function availableBytes(): number {
  return Math.min(totalmem(), process.constrainedMemory?.() || Infinity)
}

interface PackingAhead {
  level: number
  memoryBytes: number
  defer: Defer
}

/** Packs segments while those before them are written, and hands them out in their order. */
async function* packAhead(
  sources: AnyIterable<ZipSource>, { level, memoryBytes, defer }: PackingAhead
): AsyncGenerator<Prepared> {
  const wholeBytes = memoryBytes < scarceBytes ? maxScarceWholeBytes : maxWholeBytes
  const threads = createSegmentThreads()
  defer(() => threads.close())
  const waiting: Prepared[] = []
  for await (const { sources: some, isAll } of segmentsOf(sources, wholeBytes)) {
    const isLarge = (some[0] as ZipSource).bytes > wholeBytes
    // For a few, starting a thread would take longer than packing them here; and only here can be told what was read.
    const isHere = isAll || some.some(({ onRead }) => onRead !== undefined)
    const zip = isLarge ? null : isHere ? packSegment(some, level) : threads.pack({ sources: some, level })
    const ready = zip === null ? Promise.resolve(null) : zip.then(bytes => Buffer.from(bytes.buffer))
    // It may fail before its turn comes, or when it never does.
    ready.catch(() => {})
    waiting.push({ sources: some, ready })
    if (waiting.length > threads.count) yield waiting.shift() as Prepared
  }
  yield* waiting
}

/** The sources in their order, some at a time, those of more than `wholeBytes` alone; `isAll`: there are no others. */
async function* segmentsOf(
  sources: AnyIterable<ZipSource>, wholeBytes: number
): AsyncGenerator<{ sources: ZipSource[]; isAll: boolean }> {
  let some: ZipSource[] = []
  let bytes = 0
  let isFirst = true
  for await (const source of sources) {
    checkSourceName(source)
    const isAlone = Math.max(source.bytes, some[0]?.bytes ?? 0) > wholeBytes
    const isFull = isAlone || bytes + source.bytes > segmentBytes || some.length >= segmentEntries
    if (isFull && some.length > 0) {
      yield { sources: some, isAll: false }
      isFirst = false
      some = []
      bytes = 0
    }
    some.push(source)
    bytes += source.bytes
  }
  if (some.length > 0) yield { sources: some, isAll: isFirst }
}

interface LargeOptions {
  level: number
  onRead(bytes: number): void
  signal: AbortSignal
}

/** A zip of one source, piece by piece. */
async function* packLarge(source: ZipSource, { level, onRead, signal }: LargeOptions): AsyncGenerator<Buffer> {
  hastenCrc()
  const zip = new ZipFile()
  const output = zip.outputStream as Readable
  const fail = (error: Error): void => void output.destroy(error)
  const contents = Readable.from(read(source, onRead), { signal }).on('error', fail)
  try {
    zip.on('error', fail)
    zip.addReadStream(contents, source.path, packingOf(source, level))
    zip.end()
    for await (const bytes of output) yield bytes as Buffer
  } finally {
    contents.destroy()
  }
}

/** Hands bytes on, but for the last ones. */
function createHolding(
  heldBytes: number, put: (bytes: Buffer) => Promise<void>
): { take(bytes: Buffer): Promise<void>; rest(): { tail: Buffer; bytes: number } } {
  let tail = Buffer.alloc(0)
  let total = 0
  return {
    async take(bytes) {
      total += bytes.length
      const all = Buffer.concat([tail, bytes])
      const ahead = Math.max(0, all.length - heldBytes)
      tail = all.subarray(ahead)
      if (ahead > 0) await put(all.subarray(0, ahead))
    },
    rest: () => ({ tail, bytes: total })
  }
}

async function* read(entry: ZipSource, onRead: (bytes: number) => void): AsyncIterable<Uint8Array> {
  const { path, source, bytes } = entry
  let seen = 0
  try {
    for await (const chunk of typeof source === 'string' ? await openFile(source, entry) : [source]) {
      seen += chunk.length
      onRead(chunk.length)
      entry.onRead?.(chunk)
      if (seen > bytes) break
      yield chunk
    }
    if (seen !== bytes) throw sourceChanged(path)
  } catch (error) {
    throw sourceUnreadable(path, error)
  }
}

async function openFile(path: string, entry: ZipSource): Promise<AsyncIterable<Buffer>> {
  const { bytes, isGrowing } = entry
  if (isGrowing && bytes === 0) return Readable.from([])
  const end = isGrowing ? bytes - 1 : Infinity
  const file = await open(path, readOnly)
  try {
    checkOpened(file.fd, entry)
  } catch (error) {
    await file.close()
    throw error
  }
  return file.createReadStream({ highWaterMark: readBytes, end })
}
