/*
 * Writes a zip into a file. The other writer, write.ts, writes sequentially, so that it can also write to a socket.
 *
 * Both are needed. A package of stored archives is mostly copying, and a file allows what a socket does not: this
 * writer leaves room for a local header, copies the contents with a few blocks in flight, and goes back to write the
 * header when the CRC and the size are known. Entries have no data descriptor, and syncing to disk begins before the
 * end. test/bench/export.ts compares it with `cp && sync`. write.ts is for many files to deflate: test/bench/pack.ts
 * compares it with `zip`.
 *
 * Small entries are read and deflated ahead, several at a time. Large ones are copied block by block: the next block is
 * read while the last one is written.
 */
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { createDeflateRaw, deflateRaw } from 'node:zlib'
import { crc32 } from '../../base/digests.js'
import { defaultZip64FromBytes, deflated, directoryOf, localHeader, stored } from '../../base/shared/zip-records.js'
import {
  blocksOf,
  checkSourceName,
  type Entry,
  isWorthDeflating,
  type LastSource,
  newEntry,
  readOnly,
  sourceChanged,
  sourceUnreadable,
  watchOpened,
  type ZipSource
} from './source.js'
import { defaultLevel, type WriteZipOptions, type ZipWritten } from './write.js'

const blockBytes = 1024 * 1024
/** A sync starts after this number of bytes, so that the disk works while the next blocks are copied. */
const syncEveryBytes = 32 * 1024 * 1024
/** Number of blocks being written to the file at a time. */
const blocksAbreast = 4
/** A larger source is not read whole. */
const maxWholeBytes = 4 * 1024 * 1024
/** Number of entries that are read ahead. */
const entriesAbreast = 8

/** Options of a zip that is written into a file. */
export interface WriteZipFileOptions extends WriteZipOptions {
  zip64FromBytes?: number
}

/** The file that a zip is written into: a FileHandle, opened for writing. It may write less than it is given. */
export interface ZipFileHandle {
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>
  /** Resolves when the written data is on disk. */
  datasync(): Promise<void>
}

/** The contents of a small source. Null for a large one, which is read only when it is written. */
type Ready = (Pick<Entry, 'method' | 'crc'> & { packed: Uint8Array }) | null

/**
 * Writes a zip of `sources` to an empty file and syncs it. The file stays open. Refuses like `writeZip`. The reason of
 * an aborted signal is thrown unchanged; the file is then not a valid zip.
 */
export async function writeZipFile(
  sources: Iterable<ZipSource> | AsyncIterable<ZipSource>,
  file: ZipFileHandle,
  options: WriteZipFileOptions = {}
): Promise<ZipWritten> {
  const { level = defaultLevel, zip64FromBytes = defaultZip64FromBytes, onProgress = () => {}, last, signal } = options
  signal?.throwIfAborted()
  const written: ZipWritten = { entries: 0, bytes: 0, zipBytes: 0 }
  const entries: Entry[] = []
  const syncing = createSyncing(file)
  const small = createGathering(file)
  const onRead = (bytes: number): void => {
    signal?.throwIfAborted()
    written.bytes += bytes
    syncing.note(bytes)
    onProgress(written)
  }
  async function writeEntry({ source, ready }: Prepared): Promise<void> {
    signal?.throwIfAborted()
    const entry = newEntry(source, written.zipBytes, zip64FromBytes)
    const at = entry.offset + localHeader(entry).length
    const contents = await ready
    if (contents !== null) {
      Object.assign(entry, { method: contents.method, crc: contents.crc, packedBytes: contents.packed.length })
      await small.add(localHeader(entry), contents.packed)
      onRead(entry.bytes)
    } else {
      await small.flush()
      Object.assign(entry, await writeLarge(source, { file, at, level, onRead }))
      await writeAll(file, localHeader(entry), entry.offset)
    }
    written.zipBytes = at + entry.packedBytes
    if (contents === null) small.goOnAt(written.zipBytes)
    written.entries++
    entries.push(entry)
  }
  async function writeEntries(): Promise<void> {
    for await (const prepared of readAhead(sources, level)) await writeEntry(prepared)
    if (last !== undefined) await writeEntry(preparedOf(sourceOf(last), level))
    const directory = directoryOf(entries, written.zipBytes, zip64FromBytes)
    await small.add(directory)
    await small.flush()
    written.zipBytes += directory.length
  }

  try {
    await writeEntries()
  } catch (error) {
    await syncing.settled()
    throw error
  }
  await syncing.finish()
  return written
}

/** Writes small adjacent pieces in one call: a package may contain tens of thousands of outputs. */
function createGathering(file: ZipFileHandle) {
  let place = 0
  let pieces: Uint8Array[] = []
  let bytes = 0

  async function flush(): Promise<void> {
    const [gathered, at] = [Buffer.concat(pieces), place]
    place += bytes
    pieces = []
    bytes = 0
    await writeAll(file, gathered, at)
  }

  return {
    async add(...more: Uint8Array[]): Promise<void> {
      pieces.push(...more)
      for (const { length } of more) bytes += length
      if (bytes >= blockBytes) await flush()
    },
    flush,
    /** Sets the offset of the next piece. */
    goOnAt: (next: number): void => void (place = next)
  }
}

/** Starts syncing before the end of the file. */
function createSyncing(file: ZipFileHandle) {
  let waitingBytes = 0
  let running: Promise<void> | null = null
  const failures: unknown[] = []
  return {
    note(bytes: number): void {
      waitingBytes += bytes
      if (running !== null || waitingBytes < syncEveryBytes) return
      waitingBytes = 0
      running = file
        .datasync()
        .catch(error => void failures.push(error))
        .finally(() => (running = null))
    },

    /** Resolves when no sync is in progress. */
    settled: async (): Promise<void> => void (await running),

    /** Rejects with the first error of a sync, now or earlier: the disk reports an error only once. */
    async finish(): Promise<void> {
      await running
      if (failures.length > 0) throw failures[0]
      await file.datasync()
    }
  }
}

interface Prepared {
  source: ZipSource
  ready: Promise<Ready>
}

/** Prepares small sources while earlier ones are written, and yields each in order. */
async function* readAhead(
  sources: Iterable<ZipSource> | AsyncIterable<ZipSource>,
  level: number
): AsyncGenerator<Prepared> {
  const waiting: Prepared[] = []
  for await (const source of sources) {
    waiting.push(preparedOf(source, level))
    if (waiting.length >= entriesAbreast) yield waiting.shift() as Prepared
  }
  yield* waiting
}

function preparedOf(source: ZipSource, level: number): Prepared {
  checkSourceName(source)
  const ready = prepare(source, level)
  // It may fail before anything waits for it, or when nothing ever does.
  ready.catch(() => {})
  return { source, ready }
}

function sourceOf({ contents, ...entry }: LastSource): ZipSource {
  const source = contents()
  return { ...entry, kind: 'file', source, bytes: source.length }
}

async function prepare(source: ZipSource, level: number): Promise<Ready> {
  if (source.kind === 'file' && source.bytes > maxWholeBytes) return null
  const bytes = await wholeOf(source)
  const crc = crc32(bytes)
  if (level === 0 || !isWorthDeflating(source)) return { method: stored, crc, packed: bytes }
  const packed: Uint8Array = await promisify<Uint8Array, object, Uint8Array>(deflateRaw)(bytes, { level })
  return { method: deflated, crc, packed }
}

async function wholeOf(entry: ZipSource): Promise<Uint8Array> {
  const { path, kind, source, bytes, isGrowing, onRead } = entry
  if (kind === 'directory') return Buffer.alloc(0)
  if (typeof source !== 'string') {
    onRead?.(source)
    return source
  }
  if (kind === 'symlink') return Buffer.from(source)
  try {
    const file = await open(source, readOnly)
    try {
      const endReading = watchOpened(file.fd, entry)
      const found = await file.readFile()
      const whole = isGrowing ? found.subarray(0, bytes) : found
      if (whole.length !== bytes) throw sourceChanged(path)
      endReading()
      onRead?.(whole)
      return whole
    } finally {
      await file.close()
    }
  } catch (error) {
    throw sourceUnreadable(path, error)
  }
}

interface Place {
  file: ZipFileHandle
  /** Offset of its first byte. */
  at: number
  level: number
  onRead(bytes: number): void
}

type Written = Pick<Entry, 'method' | 'crc' | 'packedBytes'>

async function writeLarge(source: ZipSource, place: Place): Promise<Written> {
  const isStored = place.level === 0 || !isWorthDeflating(source)
  return isStored ? copy(source, place) : deflate(source, place)
}

/** Copies with a fixed set of blocks in rotation: new memory would cost more than the copying. */
async function copy(source: ZipSource, { file, at, onRead }: Place): Promise<Written> {
  const blocks = Array.from({ length: blocksAbreast }, () => ({
    buffer: Buffer.allocUnsafeSlow(blockBytes),
    written: Promise.resolve()
  }))
  let crc = 0
  let packedBytes = 0
  let turn = 0
  try {
    for await (const bytes of blocksOf(source, async () => {
      const block = blocks[turn % blocks.length] as (typeof blocks)[number]
      await block.written
      return block.buffer
    })) {
      const written = writeAll(file, bytes, at + packedBytes)
      // Handled when the block is used again.
      written.catch(() => {})
      Object.assign(blocks[turn++ % blocks.length] as object, { written })
      crc = crc32(bytes, crc)
      packedBytes += bytes.length
      onRead(bytes.length)
    }
  } finally {
    // No write may be in progress when the caller closes the file.
    await Promise.allSettled(blocks.map(({ written }) => written))
  }
  await Promise.all(blocks.map(({ written }) => written))
  return { method: stored, crc, packedBytes }
}

async function deflate(source: ZipSource, { file, at, level, onRead }: Place): Promise<Written> {
  let crc = 0
  let packedBytes = 0
  async function* read(): AsyncGenerator<Buffer> {
    for await (const block of blocksOf(source, async () => Buffer.allocUnsafeSlow(blockBytes))) {
      crc = crc32(block, crc)
      onRead(block.length)
      yield block
    }
  }
  await pipeline(read(), createDeflateRaw({ level, chunkSize: blockBytes }), async packed => {
    for await (const piece of packed as AsyncIterable<Buffer>) {
      await writeAll(file, piece, at + packedBytes)
      packedBytes += piece.length
    }
  })
  return { method: deflated, crc, packedBytes }
}

async function writeAll(file: ZipFileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}
