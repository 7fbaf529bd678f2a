/*
 * Writes a zip to any Writable, a socket as well as a file, sequentially, with the entries in the order of their
 * sources. A package of stored archives is written into a file faster by write-file.ts, which explains why there are
 * two writers.
 *
 * Threads pack the sources in segments (segment-memory.ts). A segment is a zip of its own with some of the sources; the
 * segments are joined as they are finished (join.ts). A large source is cut into pieces for the same threads
 * (large.ts). yazl (segment.ts) packs sources that must be read in this thread, and small sets of files, for which no
 * thread is started. It is not used for more, because it searches all entries for each one that it writes, and reads
 * every file through streams and the thread pool. measured: test/bench/pack.ts
 */
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { closing, type Defer } from '../base/closing.js'
import { defaultZip64FromBytes } from '../shared/zip-records.js'
import { createJoining } from './join.js'
import { createLargePacking, endLarge, type LargeOptions, type LargePart } from './large.js'
import { packSegment } from './segment.js'
import { createSegmentThreads, type SegmentThreads } from './segment-threads.js'
import { checkSourceName, isWorthDeflating, type LastSource, type ZipSource } from './source.js'

/** Progress of writing a zip. */
export interface ZipProgress {
  entries: number
  /** Size of the sources that were read, before compression. */
  bytes: number
}

/** Options of a zip. */
export interface WriteZipOptions {
  /** Compression level: 0 (store) to 9. */
  level?: number
  /** Called as the zip is written, with the amount that was read. */
  onProgress?: (progress: ZipProgress) => void
  last?: LastSource
  signal?: AbortSignal | undefined
  /** Sizes and offsets from here on are written in zip64 form; for tests. */
  zip64FromBytes?: number
}

/** The result of writing a zip. */
export interface ZipWritten extends ZipProgress {
  /** Size of the zip in bytes. */
  zipBytes: number
}

/** The default compression level. */
export const defaultLevel = 6
type AnyIterable<T> = Iterable<T> | AsyncIterable<T>

/** Maximum size of a segment; several segments are in memory at a time. */
const segmentBytes = 2 * 1024 * 1024
const segmentEntries = 256
/** A larger file is cut into pieces. */
const maxWholeBytes = 1024 * 1024
/**
 * The same for a stored file. In pieces its CRC would follow its contents, and Java's ZipInputStream could not read it.
 */
const maxWholeStoredBytes = 8 * 1024 * 1024

/**
 * Writes a zip of `sources` to `out`, which stays open: the caller ends it, or destroys it if this rejects. Refuses
 * (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file; (`invalid`) name_not_packable. The
 * reason of an aborted signal is thrown unchanged.
 */
export async function writeZip(
  sources: AnyIterable<ZipSource>,
  out: Writable,
  options: WriteZipOptions = {}
): Promise<ZipWritten> {
  const { level = defaultLevel, onProgress = () => {}, last, signal, zip64FromBytes = defaultZip64FromBytes } = options
  signal?.throwIfAborted()
  return closing(async defer => {
    const written: ZipWritten = { entries: 0, bytes: 0, zipBytes: 0 }
    // The first failure of any part ends the others, and is the one that is thrown.
    const ending = new AbortController()
    const fail = (error: unknown): void => ending.abort(error)
    const abort = (): void => fail(signal?.reason)
    const close = (): void => fail(new Error('the output was closed before the zip was complete'))
    signal?.addEventListener('abort', abort)
    out.on('error', fail).on('close', close)
    defer(() => {
      signal?.removeEventListener('abort', abort)
      out.off('error', fail).off('close', close)
    })
    if (out.destroyed) close()

    const joining = createJoining({ zip64FromBytes })
    async function put(bytes: Uint8Array, release: (() => void) | null = null): Promise<void> {
      ending.signal.throwIfAborted()
      written.zipBytes += bytes.length
      if (!out.write(bytes, () => release?.())) await once(out, 'drain', { signal: ending.signal })
    }
    async function putSegment(zip: Buffer, sources: readonly ZipSource[]): Promise<void> {
      await put(zip.subarray(0, joining.take(zip, zip.length)))
      for (const source of sources) if (source.kind === 'file') written.bytes += source.bytes
      written.entries += sources.length
    }
    let largeBytes = 0
    async function putLarge(packed: Buffer, { bytes, entry, release }: LargePart): Promise<void> {
      await put(packed, release)
      largeBytes += packed.length
      written.bytes += bytes
      if (entry === null) return
      const { descriptor, end } = endLarge(entry, largeBytes, zip64FromBytes)
      await put(descriptor)
      joining.take(end, largeBytes + descriptor.length + end.length)
      largeBytes = 0
      written.entries++
    }
    async function work(): Promise<void> {
      for await (const part of packAhead(sources, { level, zip64FromBytes, defer })) {
        const { buffer, byteOffset, length } = await part.ready
        const packed = Buffer.from(buffer, byteOffset, length)
        await ('sources' in part ? putSegment(packed, part.sources) : putLarge(packed, part))
        onProgress({ entries: written.entries, bytes: written.bytes })
      }
      if (last !== undefined) {
        const contents = last.contents()
        const source: ZipSource = { ...last, kind: 'file', source: contents, bytes: contents.length }
        await putSegment(await packSegment([source], level), [source])
      }
      await put(joining.end())
    }
    await work().catch(fail)
    ending.signal.throwIfAborted()
    return written
  })
}

/** A zip of some sources, or a part of the zip of one large source. */
type Part = LargePart | { ready: Promise<Uint8Array>; sources: readonly ZipSource[] }

interface PackingAhead {
  level: number
  zip64FromBytes: number
  defer: Defer
}

/** Packs the next parts while earlier ones are written, and yields them in order. */
async function* packAhead(sources: AnyIterable<ZipSource>, { defer, ...options }: PackingAhead): AsyncGenerator<Part> {
  const threads = createSegmentThreads()
  defer(() => threads.close())
  const waiting: Part[] = []
  for await (const part of partsOf(sources, { ...options, threads })) {
    // It may fail before anything waits for it, or when nothing ever does.
    part.ready.catch(() => {})
    waiting.push(part)
    if (waiting.length > threads.count) yield waiting.shift() as Part
  }
  yield* waiting
}

async function* partsOf(
  sources: AnyIterable<ZipSource>,
  options: LargeOptions & { threads: SegmentThreads }
): AsyncGenerator<Part> {
  const { level, threads } = options
  const packLarge = createLargePacking(options)
  for await (const { sources: some, isAll } of segmentsOf(sources)) {
    const [first] = some as [ZipSource]
    // For a few sources, starting a thread would take longer than packing them here. `onRead` can be called only here.
    const isHere = isAll || some.some(({ onRead }) => onRead !== undefined)
    if (isLarge(first)) yield* packLarge(first)
    else
      yield {
        ready: isHere ? packSegment(some, level) : threads.pack({ kind: 'segment', sources: some, level }),
        sources: some
      }
  }
}

function isLarge(source: ZipSource): boolean {
  return source.kind === 'file' && source.bytes > (isWorthDeflating(source) ? maxWholeBytes : maxWholeStoredBytes)
}

/** Yields the sources in order, several at a time, and large ones alone. `isAll` means that there are no others. */
async function* segmentsOf(sources: AnyIterable<ZipSource>): AsyncGenerator<{ sources: ZipSource[]; isAll: boolean }> {
  let some: ZipSource[] = []
  let bytes = 0
  let isFirst = true
  for await (const source of sources) {
    checkSourceName(source)
    const isAlone = isLarge(source) || (some[0] !== undefined && isLarge(some[0]))
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
