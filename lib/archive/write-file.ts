/*
 * Writing a zip into a file, the fast way for packages of stored archives (test/bench/export.ts): yazl (write.ts), which
 * can write to anything, takes its CRC-32 byte by byte in JavaScript and hands every block through five streams.
 *
 * PKWARE APPNOTE: a file lets one go back, so a local header (4.3.7) is written when the CRC and the size of what
 * follows it are known, and no data descriptor is needed. Then the directory (4.3.12) and its end (4.3.14 to 4.3.16).
 * Numbers that do not fit are 0xffff or 0xffffffff, and stand in the zip64 extra field (4.5.3), in the local header where
 * the size of the source says that they may not fit.
 *
 * What is small is read and deflated ahead, some entries at a time; what is large is copied block by block, the next
 * one being read while the last is written.
 *
 * Differences: no comments, no encryption, names are UTF-8 (bit 11), times are in the extended timestamp field (0x5455).
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { createDeflateRaw, deflateRaw } from 'node:zlib'
import { crc32 } from '../base/crc32.js'
import { checkSourceName, isWorthDeflating, sourceChanged, sourceUnreadable, unixMode, type ZipSource } from './source.js'
import { defaultLevel, type WriteZipOptions, type ZipWritten } from './write.js'

const blockBytes = 1024 * 1024
/** The disk begins with what it has when there is so much: it works while the next blocks are copied. */
const syncEveryBytes = 32 * 1024 * 1024
/** Blocks on their way to the file. */
const blocksAbreast = 4
/** A larger source is not read whole. */
const maxWholeBytes = 4 * 1024 * 1024
/** Entries that are read ahead. */
const entriesAbreast = 8
/** Not blocking: a pipe that took the place of a file would otherwise wait for a writer. */
const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

const stored = 0
const deflated = 8
const utf8Names = 0x0800
const madeByUnix = 0x033f
const plainVersion = 20
const zip64Version = 45
const maxUint16 = 0xffff
const maxUint32 = 0xffffffff
/** Sizes and places from here on are written as zip64 has them: a source this large may not fit when deflating makes it grow. */
const defaultZip64FromBytes = 0xff000000
const signatures = { local: 0x04034b50, central: 0x02014b50, end: 0x06054b50, end64: 0x06064b50, locator64: 0x07064b50 }

export interface WriteZipFileOptions extends WriteZipOptions {
  zip64FromBytes?: number
}

/** What a zip is written into: a FileHandle, opened for writing. It may write less than it is given. */
export interface ZipFileHandle {
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>
  /** Resolves when what was written is on the disk. */
  datasync(): Promise<void>
}

/** An entry that is written, as the directory tells of it. */
interface Entry {
  source: ZipSource
  name: Buffer
  method: number
  crc: number
  bytes: number
  packedBytes: number
  offset: number
  needsZip64: boolean
  /** Its offset needs zip64, too, which only the directory tells. */
  isFar: boolean
}

/** The contents of a small source; null: it is large, and read when its turn comes. */
type Ready = Pick<Entry, 'method' | 'crc'> & { packed: Uint8Array } | null

/**
 * Writes a zip of `sources` to an empty file, which stays open, and is on the disk then. Refuses as `writeZip`. An aborted signal's reason is
 * thrown unchanged; what was written by then is no zip.
 */
export async function writeZipFile(
  sources: Iterable<ZipSource> | AsyncIterable<ZipSource>, file: ZipFileHandle, options: WriteZipFileOptions = {}
): Promise<ZipWritten> {
  const { level = defaultLevel, zip64FromBytes = defaultZip64FromBytes, onProgress = () => {}, signal } = options
  signal?.throwIfAborted()
  const written: ZipWritten = { entries: 0, bytes: 0, zipBytes: 0 }
  const entries: Entry[] = []
  const syncing = createSyncing(file)
  const onRead = (bytes: number): void => {
    signal?.throwIfAborted()
    written.bytes += bytes
    syncing.note(bytes)
    onProgress(written)
  }
  async function writeEntries(): Promise<void> {
    for await (const { source, ready } of readAhead(sources, level)) {
      signal?.throwIfAborted()
      const entry = begin(source, written.zipBytes, zip64FromBytes)
      const at = entry.offset + localHeader(entry).length
      const contents = await ready
      if (contents !== null) {
        Object.assign(entry, { method: contents.method, crc: contents.crc, packedBytes: contents.packed.length })
        await writeAll(file, Buffer.concat([localHeader(entry), contents.packed]), entry.offset)
        onRead(entry.bytes)
      } else {
        Object.assign(entry, await writeLarge(source, { file, at, level, onRead }))
        await writeAll(file, localHeader(entry), entry.offset)
      }
      written.zipBytes = at + entry.packedBytes
      written.entries++
      entries.push(entry)
    }
    const directory = directoryOf(entries, written.zipBytes, zip64FromBytes)
    await writeAll(file, directory, written.zipBytes)
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

interface Syncing {
  note(bytes: number): void
  /** Resolves when nothing is under way any more. */
  settled(): Promise<void>
  /** Rejects with what the disk failed at, now or before: it says so only once. */
  finish(): Promise<void>
}

/** Lets the disk begin before the end. */
function createSyncing(file: ZipFileHandle): Syncing {
  let waitingBytes = 0
  let running: Promise<void> | null = null
  const failures: unknown[] = []
  return {
    note(bytes) {
      waitingBytes += bytes
      if (running !== null || waitingBytes < syncEveryBytes) return
      waitingBytes = 0
      running = file.datasync().catch(error => void failures.push(error)).finally(() => (running = null))
    },
    settled: async () => void (await running),
    async finish() {
      await running
      if (failures.length > 0) throw failures[0]
      await file.datasync()
    }
  }
}

/** Small sources are prepared while those before them are written; each is handed out in its turn. */
async function* readAhead(
  sources: Iterable<ZipSource> | AsyncIterable<ZipSource>, level: number
): AsyncGenerator<{ source: ZipSource; ready: Promise<Ready> }> {
  const waiting: Array<{ source: ZipSource; ready: Promise<Ready> }> = []
  for await (const source of sources) {
    checkSourceName(source)
    const ready = prepare(source, level)
    // It may fail before its turn comes, or when it never does.
    ready.catch(() => {})
    waiting.push({ source, ready })
    if (waiting.length >= entriesAbreast) yield waiting.shift() as (typeof waiting)[number]
  }
  yield* waiting
}

async function prepare(source: ZipSource, level: number): Promise<Ready> {
  if (source.kind === 'file' && source.bytes > maxWholeBytes) return null
  const bytes = await wholeOf(source)
  const crc = crc32(bytes)
  if (level === 0 || !isWorthDeflating(source)) return { method: stored, crc, packed: bytes }
  const packed: Uint8Array = await promisify<Uint8Array, object, Uint8Array>(deflateRaw)(bytes, { level })
  return { method: deflated, crc, packed }
}

async function wholeOf({ path, kind, source, bytes }: ZipSource): Promise<Uint8Array> {
  if (kind === 'directory') return Buffer.alloc(0)
  if (typeof source !== 'string') return source
  if (kind === 'symlink') return Buffer.from(source)
  try {
    const file = await open(source, readOnly)
    try {
      const whole = await file.readFile()
      if (whole.length !== bytes) throw sourceChanged(path)
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
  /** Where its bytes begin. */
  at: number
  level: number
  onRead(bytes: number): void
}

type Written = Pick<Entry, 'method' | 'crc' | 'packedBytes'>

async function writeLarge(source: ZipSource, place: Place): Promise<Written> {
  const isStored = place.level === 0 || !isWorthDeflating(source)
  return isStored ? copy(source, place) : deflate(source, place)
}

/** The blocks are used in turn: fresh memory would cost more than the copying. */
async function copy(source: ZipSource, { file, at, onRead }: Place): Promise<Written> {
  const blocks = Array.from({ length: blocksAbreast }, () => ({ buffer: Buffer.allocUnsafeSlow(blockBytes), written: Promise.resolve() }))
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
      // Looked at when its turn comes again.
      written.catch(() => {})
      Object.assign(blocks[turn++ % blocks.length] as object, { written })
      crc = crc32(bytes, crc)
      packedBytes += bytes.length
      onRead(bytes.length)
    }
  } finally {
    // Whoever closes the file must find nothing on its way there.
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

/** Its bytes, block by block, in the buffers that `buffer` gives. */
async function* blocksOf({ path, source, bytes }: ZipSource, buffer: () => Promise<Buffer>): AsyncGenerator<Buffer> {
  if (typeof source !== 'string') return yield Buffer.from(source.buffer, source.byteOffset, source.length)
  const opened = await open(source, readOnly).catch(error => { throw sourceUnreadable(path, error) })
  try {
    for (let at = 0; ;) {
      const block = await buffer()
      const { bytesRead } = await opened.read(block, 0, block.length, at).catch(error => { throw sourceUnreadable(path, error) })
      at += bytesRead
      if (at > bytes || (bytesRead === 0 && at !== bytes)) throw sourceChanged(path)
      if (bytesRead === 0) return
      yield block.subarray(0, bytesRead)
    }
  } finally {
    await opened.close()
  }
}

async function writeAll(file: ZipFileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}

function begin(source: ZipSource, offset: number, zip64FromBytes: number): Entry {
  const name = Buffer.from(source.kind === 'directory' ? `${source.path}/` : source.path)
  const bytes = source.kind === 'symlink' ? Buffer.byteLength(source.source) : source.kind === 'directory' ? 0 : source.bytes
  const isFar = offset >= zip64FromBytes
  return { source, name, method: stored, crc: 0, bytes, packedBytes: 0, offset, needsZip64: bytes >= zip64FromBytes, isFar }
}

/** 4.3.7. Of the same length whatever the CRC and the sizes turn out to be. */
function localHeader({ source, name, method, crc, bytes, packedBytes, needsZip64 }: Entry): Buffer {
  const extra = Buffer.concat([timestamp(source), needsZip64 ? zip64([bytes, packedBytes]) : Buffer.alloc(0)])
  const head = Buffer.alloc(30)
  head.writeUInt32LE(signatures.local, 0)
  head.writeUInt16LE(needsZip64 ? zip64Version : plainVersion, 4)
  head.writeUInt16LE(utf8Names, 6)
  head.writeUInt16LE(method, 8)
  writeDosTime(head, 10, source.mtimeMs)
  head.writeUInt32LE(crc, 14)
  head.writeUInt32LE(needsZip64 ? maxUint32 : packedBytes, 18)
  head.writeUInt32LE(needsZip64 ? maxUint32 : bytes, 22)
  head.writeUInt16LE(name.length, 26)
  head.writeUInt16LE(extra.length, 28)
  return Buffer.concat([head, name, extra])
}

/** 4.3.12 */
function directoryHeader({ source, name, method, crc, bytes, packedBytes, offset, needsZip64, isFar }: Entry): Buffer {
  const is64 = needsZip64 || isFar
  const extra = Buffer.concat([timestamp(source), is64 ? zip64([bytes, packedBytes, offset]) : Buffer.alloc(0)])
  const head = Buffer.alloc(46)
  head.writeUInt32LE(signatures.central, 0)
  head.writeUInt16LE(madeByUnix, 4)
  head.writeUInt16LE(is64 ? zip64Version : plainVersion, 6)
  head.writeUInt16LE(utf8Names, 8)
  head.writeUInt16LE(method, 10)
  writeDosTime(head, 12, source.mtimeMs)
  head.writeUInt32LE(crc, 16)
  head.writeUInt32LE(is64 ? maxUint32 : packedBytes, 20)
  head.writeUInt32LE(is64 ? maxUint32 : bytes, 24)
  head.writeUInt16LE(name.length, 28)
  head.writeUInt16LE(extra.length, 30)
  head.writeUInt32LE((unixMode(source) << 16) >>> 0, 38)
  head.writeUInt32LE(is64 ? maxUint32 : offset, 42)
  return Buffer.concat([head, name, extra])
}

/** The directory and its end, with the records of zip64 (4.3.14, 4.3.15) before it where a number does not fit. */
function directoryOf(entries: readonly Entry[], offset: number, zip64FromBytes: number): Buffer {
  const directory = Buffer.concat(entries.map(directoryHeader))
  const end = Buffer.alloc(22)
  end.writeUInt32LE(signatures.end, 0)
  end.writeUInt16LE(Math.min(entries.length, maxUint16), 8)
  end.writeUInt16LE(Math.min(entries.length, maxUint16), 10)
  end.writeUInt32LE(Math.min(directory.length, maxUint32), 12)
  end.writeUInt32LE(offset < zip64FromBytes ? offset : maxUint32, 16)
  const fits = entries.length < maxUint16 && directory.length < maxUint32 && offset < zip64FromBytes
  if (fits) return Buffer.concat([directory, end])
  const end64 = Buffer.alloc(56)
  end64.writeUInt32LE(signatures.end64, 0)
  end64.writeBigUInt64LE(44n, 4)
  end64.writeUInt16LE(madeByUnix, 12)
  end64.writeUInt16LE(zip64Version, 14)
  for (const at of [24, 32]) end64.writeBigUInt64LE(BigInt(entries.length), at)
  end64.writeBigUInt64LE(BigInt(directory.length), 40)
  end64.writeBigUInt64LE(BigInt(offset), 48)
  const locator = Buffer.alloc(20)
  locator.writeUInt32LE(signatures.locator64, 0)
  locator.writeBigUInt64LE(BigInt(offset + directory.length), 8)
  locator.writeUInt32LE(1, 16)
  return Buffer.concat([directory, end64, locator, end])
}

/** 4.5.3 */
function zip64(numbers: readonly number[]): Buffer {
  const field = Buffer.alloc(4 + 8 * numbers.length)
  field.writeUInt16LE(0x0001, 0)
  field.writeUInt16LE(8 * numbers.length, 2)
  for (const [index, number] of numbers.entries()) field.writeBigUInt64LE(BigInt(number), 4 + 8 * index)
  return field
}

/** Info-ZIP's extended timestamp: seconds of the last change. */
function timestamp({ mtimeMs }: ZipSource): Buffer {
  const field = Buffer.alloc(9)
  field.writeUInt16LE(0x5455, 0)
  field.writeUInt16LE(5, 2)
  field.writeUInt8(1, 4)
  field.writeInt32LE(Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, Math.floor(mtimeMs / 1000))), 5)
  return field
}

/** 4.4.6: local time, from 1980 on, to two seconds. */
function writeDosTime(head: Buffer, at: number, mtimeMs: number): void {
  const time = new Date(mtimeMs)
  const year = Math.max(0, Math.min(127, time.getFullYear() - 1980))
  head.writeUInt16LE((time.getHours() << 11) | (time.getMinutes() << 5) | (time.getSeconds() >> 1), at)
  head.writeUInt16LE((year << 9) | ((time.getMonth() + 1) << 5) | time.getDate(), at + 2)
}
