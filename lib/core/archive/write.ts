/*
 * Writes a zip to any Writable, a socket as well as a file, sequentially, with the entries in the order of their
 * sources. A package of stored archives is written into a file faster by write-file.ts, which explains why there are
 * two writers.
 *
 * Threads pack the sources in segments (segments.ts). A segment is a zip of its own with some of the sources; the
 * segments are joined as they are finished. A large source is cut into pieces for the same threads
 * (segments.ts). yazl packs sources that must be read in this thread, and small sets of files, for which no
 * thread is started. It is not used for more, because it searches all entries for each one that it writes, and reads
 * every file through streams and the thread pool. measured: test/bench/pack.ts
 */
import { once } from 'node:events'
import { createRequire } from 'node:module'
import type { Readable, Writable } from 'node:stream'
import type { ZipFile } from 'yazl'
import { closing, type Defer } from '../../base/async.js'
import {
  centralBytes,
  defaultZip64FromBytes,
  end64Bytes,
  endBytes,
  endOf,
  locatorBytes,
  maxUint32,
  zip64Field,
  zip64Id,
  zip64Version
} from '../../base/shared/zip-records.js'
import {
  createLargePacking,
  createSegmentThreads,
  endLarge,
  packInMemory,
  type LargeOptions,
  type LargePart,
  type SegmentThreads
} from './segments.js'
import { packedMode } from '../../base/shared/tree-text.js'
import { checkSourceName, isWorthDeflating, type LastSource, readWhole, type ZipSource } from './source.js'

export interface ZipProgress {
  entries: number
  /** Size of the sources that were read, before compression. */
  bytes: number
}

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
        ready: isHere ? packHere(some, level) : threads.pack({ kind: 'segment', sources: some, level }),
        sources: some
      }
  }
}

/** Larger ones are deflated in the thread pool, so that the event loop is not blocked. */
const maxBlockingBytes = 256 * 1024

function packHere(sources: readonly ZipSource[], level: number): Promise<Uint8Array> {
  const bytes = sources.reduce((sum, source) => sum + source.bytes, 0)
  const isSmall = bytes <= maxBlockingBytes && sources.every(({ onRead }) => onRead === undefined)
  return isSmall ? Promise.resolve().then(() => packInMemory(sources, level)) : packSegment(sources, level)
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

/*
 * Packs a part of a zip: some sources, read whole and packed by yazl in memory, as a zip of their own. yazl
 * deflates in the thread pool, so the event loop is not blocked.
 */

/** Packs sources into a zip. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file. */
export async function packSegment(sources: readonly ZipSource[], level: number): Promise<Buffer> {
  // Most small pushes need none of it. It is CommonJS, as yauzl (read.ts).
  const yazl = createRequire(import.meta.url)('yazl') as typeof import('yazl')
  const zip = new yazl.ZipFile()
  const output = zip.outputStream as Readable
  const pieces: Buffer[] = []
  output.on('data', (piece: Buffer) => pieces.push(piece))
  const ended = once(output, 'end')
  for (const source of sources) add(zip, source, level)
  zip.end()
  await ended
  return Buffer.concat(pieces)
}

function add(zip: ZipFile, source: ZipSource, level: number): void {
  const { path, kind } = source
  const about = { mode: packedMode(source), mtime: new Date(source.mtimeMs) }
  const compressionLevel = isWorthDeflating(source) ? level : 0
  if (kind === 'directory') zip.addEmptyDirectory(path, about)
  else if (kind === 'symlink') zip.addBuffer(Buffer.from(source.source), path, { ...about, compressionLevel })
  else zip.addBuffer(readWhole(source), path, { ...about, compressionLevel })
}

/*
 * Joins several zips into one: first their contents one after the other, then one directory in which the offset of
 * every entry is moved accordingly (APPNOTE 4.3.12), then its end record.
 *
 * Limits of the input: no comments; a zip64 field, if present, contains both sizes and the offset, as yazl writes it.
 */

/** Joins zips in the order in which they are passed. */
interface Joining {
  /**
   * Takes a zip of `zipBytes` bytes. `tail` contains its last bytes, including its whole directory. Returns the number
   * of bytes, from its first one, that belong in the joined zip.
   */
  take(tail: Buffer, zipBytes: number): number
  /** Returns the end of the joined zip. */
  end(): Buffer
}

/** Creates the joining. Offsets from `zip64FromBytes` on are written in zip64 form. */
export function createJoining({ zip64FromBytes = maxUint32 }: { zip64FromBytes?: number } = {}): Joining {
  const directories: Buffer[] = []
  let entries = 0
  let offset = 0
  return {
    take(tail, zipBytes) {
      const end = tail.subarray(tail.length - endBytes)
      const isZip64 = end.readUInt32LE(16) === maxUint32
      const directoryEnd = tail.length - endBytes - (isZip64 ? end64Bytes + locatorBytes : 0)
      const directory = tail.subarray(directoryEnd - end.readUInt32LE(12), directoryEnd)
      const contentBytes = zipBytes - (tail.length - directoryEnd) - directory.length
      directories.push(move(Buffer.from(directory), offset, zip64FromBytes))
      entries += end.readUInt16LE(10)
      offset += contentBytes
      return contentBytes
    },
    end() {
      const bytes = directories.reduce((sum, { length }) => sum + length, 0)
      return Buffer.concat([...directories, endOf({ entries, offset, bytes }, zip64FromBytes)])
    }
  }
}

/** Returns a directory whose entries are moved by this number of bytes. */
function move(directory: Buffer, by: number, zip64FromBytes: number): Buffer {
  const pieces: Buffer[] = []
  let done = 0
  for (let at = 0; at < directory.length; ) {
    const nameBytes = directory.readUInt16LE(at + 28)
    const length = centralBytes + nameBytes + directory.readUInt16LE(at + 30)
    const place = directory.readUInt32LE(at + 42) + by
    // The usual case: only a number changes.
    if (place < zip64FromBytes) {
      directory.writeUInt32LE(place, at + 42)
    } else {
      pieces.push(directory.subarray(done, at), moveFar(directory.subarray(at, at + length), nameBytes, by))
      done = at + length
    }
    at += length
  }
  return pieces.length === 0 ? directory : Buffer.concat([...pieces, directory.subarray(done)])
}

/** Returns a record with its offset in zip64 form. */
function moveFar(record: Buffer, nameBytes: number, by: number): Buffer {
  const near = record.readUInt32LE(42)
  if (near === maxUint32) {
    const at = findZip64(record, centralBytes + nameBytes)
    record.writeBigUInt64LE(record.readBigUInt64LE(at + 20) + BigInt(by), at + 20)
    return record
  }
  const field = zip64Field([record.readUInt32LE(24), record.readUInt32LE(20), near + by])
  record.writeUInt16LE(zip64Version, 6)
  for (const at of [20, 24, 42]) record.writeUInt32LE(maxUint32, at)
  record.writeUInt16LE(record.readUInt16LE(30) + field.length, 30)
  return Buffer.concat([record, field])
}

function findZip64(record: Buffer, extraStart: number): number {
  let at = extraStart
  while (record.readUInt16LE(at) !== zip64Id) at += 4 + record.readUInt16LE(at + 2)
  return at
}
