/*
 * The records of a zip (PKWARE APPNOTE 6.3.10), written by the server, the CLI and the panel:
 *
 *   local header       4.3.7            before the contents of each entry
 *   data descriptor    4.3.9            after the contents of an entry whose size was unknown before
 *   directory header   4.3.12           one for each entry, at the end of the zip
 *   end of directory   4.3.14 - 4.3.16  the number of entries, and where the directory is
 *
 * A number that does not fit is written as 0xffff or 0xffffffff, and the zip64 extra field (4.5.3) contains it.
 *
 * The time is written twice: as DOS time (4.4.6), which is local time in steps of two seconds, and in Info-ZIP's
 * extended timestamp (0x5455), which is in seconds since 1970 and which current readers prefer.
 *
 * Differences: no comments, no encryption. Names are UTF-8 (bit 11).
 */

/** The header fields of an entry. */
export interface ZipRecord {
  /** UTF-8. The name of a directory ends with a slash. */
  name: Uint8Array
  mtimeMs: number
  /** External attributes (4.4.15). The upper 16 bits are the Unix mode with its file type. */
  attributes: number
  /** `stored` or `deflated`. */
  method: number
  crc: number
  /** Uncompressed size. */
  bytes: number
  /** Compressed size. */
  packedBytes: number
  /** Offset of the local header from the start of the zip. */
  offset: number
  /** Its sizes are written in the zip64 field. */
  needsZip64: boolean
  /** Its offset is written in the zip64 field, which only the directory header contains. */
  isFar: boolean
  /** Its CRC and sizes follow its contents, in a data descriptor. */
  isStreamed: boolean
  /** Its DOS time is that of UTC, so that its bytes are the same in each time zone; absent: local time. */
  isUtc?: true
}

/** Signatures of the records. */
export const signatures = {
  local: 0x04034b50,
  descriptor: 0x08074b50,
  central: 0x02014b50,
  end: 0x06054b50,
  end64: 0x06064b50,
  locator64: 0x07064b50
}
/** Compression method of stored entries (4.4.5). */
export const stored = 0
/** Compression method of deflated entries (4.4.5). */
export const deflated = 8
/** Size of a local header without its variable fields. */
export const localBytes = 30
/** Size of a directory header without its variable fields. */
export const centralBytes = 46
/** Size of the end record without its comment. */
export const endBytes = 22
/** Size of the zip64 end record. */
export const end64Bytes = 56
/** Size of the zip64 end locator. */
export const locatorBytes = 20
/** The header ID of the zip64 extra field. */
export const zip64Id = 0x0001
/** Version needed to extract an entry that uses zip64 (4.4.3). */
export const zip64Version = 45
/** Written in place of a 16-bit number that the zip64 records contain. */
export const maxUint16 = 0xffff
/** Written in place of a 32-bit number that the zip64 records contain. */
export const maxUint32 = 0xffffffff
/** Sizes and offsets from here on use zip64. Below 4 GiB, because deflating may enlarge an entry. */
export const defaultZip64FromBytes = 0xff000000

const utf8Names = 0x0800
const withDescriptor = 0x0008
/** The header ID of Info-ZIP's extended timestamp. */
export const timestampId = 0x5455
const timestampBytes = 9
const hasMtime = 1
/** Version made by (4.4.2): Unix, 6.3. */
const madeByUnix = 0x033f
const plainVersion = 20

/** An entry whose contents are not written yet. */
export interface NewEntry {
  name: Uint8Array
  mtimeMs: number
  attributes: number
  bytes: number
  offset: number
}

/**
 * Returns the record of an entry whose contents are not written yet. Sizes and offsets from `zip64FromBytes` on use
 * zip64.
 */
export function newRecord(
  { name, mtimeMs, attributes, bytes, offset }: NewEntry,
  zip64FromBytes = defaultZip64FromBytes
): ZipRecord {
  // Each field by its name: a spread takes 20 times as long. measured: bench/pack
  return {
    name,
    mtimeMs,
    attributes,
    method: stored,
    crc: 0,
    bytes,
    packedBytes: 0,
    offset,
    needsZip64: bytes >= zip64FromBytes,
    isFar: offset >= zip64FromBytes,
    isStreamed: false
  }
}

/** Returns the local header (4.3.7). Its length does not depend on the CRC and the sizes. */
export function localHeader(entry: ZipRecord): Uint8Array<ArrayBuffer> {
  const header = new Uint8Array(localHeaderBytes(entry))
  writeLocalHeader(entry, header, 0)
  return header
}

/** The part of a record on which the lengths of its headers depend. */
type Sized = Pick<ZipRecord, 'needsZip64' | 'isFar'> & { name: { length: number } }

export function localHeaderBytes({ name, needsZip64 }: Sized): number {
  return localBytes + name.length + timestampBytes + (needsZip64 ? zip64Bytes(2) : 0)
}

export function writeLocalHeader(entry: ZipRecord, into: Uint8Array, at: number): void {
  const known = entry.isStreamed ? { ...entry, crc: 0, bytes: 0, packedBytes: 0 } : entry
  const view = viewOf(into)
  view.setUint32(at, signatures.local, true)
  writeShared(known, view, {
    at: at + 4,
    extraAt: at + localBytes + known.name.length,
    is64: known.needsZip64,
    numbers: [known.bytes, known.packedBytes]
  })
  into.set(known.name, at + localBytes)
}

/** Returns the data descriptor (4.3.9). */
export function descriptorOf({ crc, bytes, packedBytes, needsZip64 }: ZipRecord): Uint8Array<ArrayBuffer> {
  const descriptor = new Uint8Array(needsZip64 ? 24 : 16)
  const view = viewOf(descriptor)
  view.setUint32(0, signatures.descriptor, true)
  view.setUint32(4, crc, true)
  for (const [index, number] of [packedBytes, bytes].entries()) {
    if (needsZip64) view.setBigUint64(8 + 8 * index, BigInt(number), true)
    else view.setUint32(8 + 4 * index, number, true)
  }
  return descriptor
}

export function directoryHeaderBytes({ name, needsZip64, isFar }: Sized): number {
  return centralBytes + name.length + timestampBytes + (needsZip64 || isFar ? zip64Bytes(3) : 0)
}

/** Returns the directory, which begins at `offset`, and its end. */
export function directoryOf(
  entries: readonly ZipRecord[],
  offset: number,
  zip64FromBytes = defaultZip64FromBytes
): Uint8Array<ArrayBuffer> {
  const bytes = entries.reduce((sum, entry) => sum + directoryHeaderBytes(entry), 0)
  const end = endOf({ entries: entries.length, offset, bytes }, zip64FromBytes)
  const directory = new Uint8Array(bytes + end.length)
  const view = viewOf(directory)
  let at = 0
  for (const entry of entries) {
    writeDirectoryHeader(entry, view, at)
    directory.set(entry.name, at + centralBytes)
    at += directoryHeaderBytes(entry)
  }
  directory.set(end, at)
  return directory
}

/** Writes the directory header (4.3.12) without its name. The memory must be zero. */
function writeDirectoryHeader(entry: ZipRecord, view: DataView, at: number): void {
  const { name, attributes, bytes, packedBytes, offset, needsZip64, isFar } = entry
  const is64 = needsZip64 || isFar
  view.setUint32(at, signatures.central, true)
  view.setUint16(at + 4, madeByUnix, true)
  writeShared(entry, view, {
    at: at + 6,
    extraAt: at + centralBytes + name.length,
    is64,
    numbers: [bytes, packedBytes, offset]
  })
  view.setUint32(at + 38, attributes, true)
  view.setUint32(at + 42, is64 ? maxUint32 : offset, true)
}

interface Shared {
  at: number
  extraAt: number
  is64: boolean
  /** The numbers of the zip64 field. */
  numbers: number[]
}

/**
 * Writes the fields that both headers have, from the version needed to the length of the extra field, and that field.
 */
function writeShared(entry: ZipRecord, view: DataView, { at, extraAt, is64, numbers }: Shared): void {
  view.setUint16(at, is64 ? zip64Version : plainVersion, true)
  view.setUint16(at + 2, utf8Names | (entry.isStreamed ? withDescriptor : 0), true)
  view.setUint16(at + 4, entry.method, true)
  writeDosTime(view, at + 6, entry)
  view.setUint32(at + 10, entry.crc, true)
  view.setUint32(at + 14, is64 ? maxUint32 : entry.packedBytes, true)
  view.setUint32(at + 18, is64 ? maxUint32 : entry.bytes, true)
  view.setUint16(at + 22, entry.name.length, true)
  view.setUint16(at + 24, timestampBytes + (is64 ? zip64Bytes(numbers.length) : 0), true)
  writeTimestamp(view, extraAt, entry.mtimeMs)
  if (is64) writeZip64(view, extraAt + timestampBytes, numbers)
}

/** Returns the end of a directory, after the zip64 records (4.3.14, 4.3.15) if a number does not fit. */
export function endOf(
  { entries, offset, bytes }: { entries: number; offset: number; bytes: number },
  zip64FromBytes = defaultZip64FromBytes
): Uint8Array<ArrayBuffer> {
  const fits = entries < maxUint16 && bytes < maxUint32 && offset < zip64FromBytes
  const endAt = fits ? 0 : end64Bytes + locatorBytes
  const end = new Uint8Array(endAt + endBytes)
  const view = viewOf(end)
  view.setUint32(endAt, signatures.end, true)
  view.setUint16(endAt + 8, Math.min(entries, maxUint16), true)
  view.setUint16(endAt + 10, Math.min(entries, maxUint16), true)
  view.setUint32(endAt + 12, Math.min(bytes, maxUint32), true)
  view.setUint32(endAt + 16, offset < zip64FromBytes ? offset : maxUint32, true)
  if (fits) return end
  view.setUint32(0, signatures.end64, true)
  // The size of the record without its signature and this field.
  view.setBigUint64(4, BigInt(end64Bytes - 12), true)
  view.setUint16(12, madeByUnix, true)
  view.setUint16(14, zip64Version, true)
  for (const [index, number] of [entries, entries, bytes, offset].entries())
    view.setBigUint64(24 + 8 * index, BigInt(number), true)
  view.setUint32(end64Bytes, signatures.locator64, true)
  view.setBigUint64(end64Bytes + 8, BigInt(offset + bytes), true)
  view.setUint32(end64Bytes + 16, 1, true)
  return end
}

/** Returns the zip64 extra field (4.5.3). */
export function zip64Field(numbers: readonly number[]): Uint8Array<ArrayBuffer> {
  const field = new Uint8Array(zip64Bytes(numbers.length))
  writeZip64(viewOf(field), 0, numbers)
  return field
}

function zip64Bytes(numbers: number): number {
  return 4 + 8 * numbers
}

function writeZip64(view: DataView, at: number, numbers: readonly number[]): void {
  view.setUint16(at, zip64Id, true)
  view.setUint16(at + 2, 8 * numbers.length, true)
  for (const [index, number] of numbers.entries()) view.setBigUint64(at + 4 + 8 * index, BigInt(number), true)
}

function writeTimestamp(view: DataView, at: number, mtimeMs: number): void {
  view.setUint16(at, timestampId, true)
  view.setUint16(at + 2, timestampBytes - 4, true)
  view.setUint8(at + 4, hasMtime)
  view.setInt32(at + 5, Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, Math.floor(mtimeMs / 1000))), true)
}

/** DOS time begins in 1980 and ends in 2107; other years are written as the first or the last one. */
function writeDosTime(view: DataView, at: number, { mtimeMs, isUtc }: Pick<ZipRecord, 'mtimeMs' | 'isUtc'>): void {
  const time = new Date(mtimeMs)
  const [y, month, day, hours, minutes, seconds] =
    isUtc === true
      ? [
          time.getUTCFullYear(),
          time.getUTCMonth(),
          time.getUTCDate(),
          time.getUTCHours(),
          time.getUTCMinutes(),
          time.getUTCSeconds()
        ]
      : [time.getFullYear(), time.getMonth(), time.getDate(), time.getHours(), time.getMinutes(), time.getSeconds()]
  const year = Math.max(0, Math.min(127, y - 1980))
  view.setUint16(at, (hours << 11) | (minutes << 5) | (seconds >> 1), true)
  view.setUint16(at + 2, (year << 9) | ((month + 1) << 5) | day, true)
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** File name extensions of formats that are already compressed: deflating them again takes time and saves nothing. */
export const compressedTypes: ReadonlySet<string> = new Set(
  (
    '7z aac apk avi avif br bz2 docx epub flac gif gz heic heif jar jpeg jpg jxl lz4 lzma m4a m4v mkv mov mp3 mp4 ' +
    'mpeg mpg odt ogg ogv opus png pptx rar tbz2 tgz txz war webm webp wma wmv woff woff2 xlsx xz zip zst'
  ).split(' ')
)

/** Returns the CRC-32 (PKWARE APPNOTE 4.4.7) of `bytes`. `seed` is the CRC of the bytes before them. */
export function crc32(bytes: Uint8Array, seed = 0): number {
  const table = (crcs ??= createCrcs())
  let crc = ~seed
  for (let at = 0; at < bytes.length; at++) {
    crc = (crc >>> 8) ^ (table[(crc ^ (bytes[at] as number)) & 0xff] as number)
  }
  return ~crc >>> 0
}

/** Made when it is needed: Node has a function of its own (base/digests.ts). */
let crcs: Uint32Array | undefined

/** Returns the CRC of each byte, with the reflected polynomial of ISO 3309. */
function createCrcs(): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, byte) => {
    let word = byte
    for (let bit = 0; bit < 8; bit++) word = word & 1 ? (word >>> 1) ^ 0xedb88320 : word >>> 1
    return word
  })
}
