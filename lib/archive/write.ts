/*
 * Writing a zip: entries in the order in which they come, written front to back, so that `out` may be a socket as well
 * as a file.
 *
 * Sources are packed in segments, zips of their own with some of them each, by threads that do nothing else
 * (segment-memory.ts), and joined (join.ts) as they are finished. What is large is cut into pieces for the same threads
 * (large.ts). yazl (segment.ts) packs what must be read here, and a few files, for which no thread need be started: it
 * looks through all entries for each one it writes, and hands every file through streams and the thread pool. measured:
 * bench/pack
 */
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { closing, type Defer } from '../base/closing.js'
import { createJoining } from './join.js'
import { createLargePacking, endLarge, type LargeOptions, type LargePart } from './large.js'
import { packSegment } from './segment.js'
import { createSegmentThreads } from './segment-threads.js'
import { checkSourceName, isWorthDeflating, type LastSource, type ZipSource } from './source.js'
import { defaultZip64FromBytes } from './zip-records.js'

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
  /** Sizes and places from here on are written as zip64 has them; for tests. */
  zip64FromBytes?: number
}

export interface ZipWritten extends ZipProgress {
  /** Of the zip. */
  zipBytes: number
}

export const defaultLevel = 6
type AnyIterable<T> = Iterable<T> | AsyncIterable<T>

/** A segment has no more than these: memory holds some of them at a time. */
const segmentBytes = 2 * 1024 * 1024
const segmentEntries = 256
/** A larger file is cut into pieces. */
const maxWholeBytes = 1024 * 1024
/** A larger file that is stored: in pieces its CRC would stand behind it, and Java's ZipInputStream would not read it. */
const maxWholeStoredBytes = 8 * 1024 * 1024

/**
 * Writes a zip of `sources` to `out`, which stays open: the one who opened it ends it, or throws it away when this
 * rejects. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file; (`invalid`)
 * name_not_packable. An aborted signal's reason is thrown unchanged.
 */
export async function writeZip(
  sources: AnyIterable<ZipSource>, out: Writable, options: WriteZipOptions = {}
): Promise<ZipWritten> {
  const { level = defaultLevel, onProgress = () => {}, last, signal, zip64FromBytes = defaultZip64FromBytes } = options
  signal?.throwIfAborted()
  return closing(async defer => {
    const written: ZipWritten = { entries: 0, bytes: 0, zipBytes: 0 }
    // The first failure of any part ends the others, and is the one that travels.
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

/** A zip of some sources, or a part of one of a source. */
type Part = LargePart | { ready: Promise<Uint8Array>; sources: readonly ZipSource[] }

interface PackingAhead {
  level: number
  zip64FromBytes: number
  defer: Defer
}

/** Packs what comes next while what came before is written, and hands it out in its order. */
async function* packAhead(sources: AnyIterable<ZipSource>, { defer, ...options }: PackingAhead): AsyncGenerator<Part> {
  const threads = createSegmentThreads()
  defer(() => threads.close())
  const waiting: Part[] = []
  for await (const part of partsOf(sources, { ...options, threads })) {
    // It may fail before its turn comes, or when it never does.
    part.ready.catch(() => {})
    waiting.push(part)
    if (waiting.length > threads.count) yield waiting.shift() as Part
  }
  yield* waiting
}

async function* partsOf(sources: AnyIterable<ZipSource>, options: LargeOptions): AsyncGenerator<Part> {
  const { level, threads } = options
  const packLarge = createLargePacking(options)
  for await (const { sources: some, isAll } of segmentsOf(sources)) {
    const [first] = some as [ZipSource]
    // For a few, starting a thread would take longer than packing them here; and only here can be told what was read.
    const isHere = isAll || some.some(({ onRead }) => onRead !== undefined)
    if (isLarge(first)) yield* packLarge(first)
    else yield { ready: isHere ? packSegment(some, level) : threads.pack({ kind: 'segment', sources: some, level }), sources: some }
  }
}

function isLarge(source: ZipSource): boolean {
  return source.kind === 'file' && source.bytes > (isWorthDeflating(source) ? maxWholeBytes : maxWholeStoredBytes)
}

/** The sources in their order, some at a time, those that are large alone; `isAll`: there are no others. */
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
