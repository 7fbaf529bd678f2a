/*
 * The records of a zip as they are written (PKWARE APPNOTE): the local header (4.3.7), the directory's (4.3.12), and the
 * end of the directory (4.3.14 to 4.3.16). Numbers that do not fit are 0xffff or 0xffffffff, and stand in the zip64 extra
 * field (4.5.3).
 *
 * Differences: no comments, no encryption, no data descriptors; names are UTF-8 (bit 11), times are in the extended
 * timestamp field (0x5455), too.
 */
import { unixMode, type ZipSource } from './source.js'

/** Compression methods (4.4.5). */
export const stored = 0
export const deflated = 8
/** 4.3.16, and the two records of zip64 that may stand before it. */
export const endBytes = 22
export const end64Bytes = 56
export const locatorBytes = 20
export const zip64Version = 45
/** Where a number is in the zip64 field instead. */
export const maxUint32 = 0xffffffff
const utf8Names = 0x0800
const madeByUnix = 0x033f
const plainVersion = 20
const maxUint16 = 0xffff
const signatures = { local: 0x04034b50, central: 0x02014b50, end: 0x06054b50, end64: 0x06064b50, locator64: 0x07064b50 }

/** An entry that is written, as the directory tells of it. */
export interface Entry {
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

/** An entry whose contents are still to be written; `zip64FromBytes`: sizes and places that are written as zip64 has them. */
export function begin(source: ZipSource, offset: number, zip64FromBytes: number): Entry {
  const name = Buffer.from(source.kind === 'directory' ? `${source.path}/` : source.path)
  const bytes = source.kind === 'symlink' ? Buffer.byteLength(source.source) : source.kind === 'directory' ? 0 : source.bytes
  const isFar = offset >= zip64FromBytes
  return { source, name, method: stored, crc: 0, bytes, packedBytes: 0, offset, needsZip64: bytes >= zip64FromBytes, isFar }
}

/** 4.3.7. Of the same length whatever the CRC and the sizes turn out to be. */
export function localHeader({ source, name, method, crc, bytes, packedBytes, needsZip64 }: Entry): Buffer {
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

/** The directory and its end. */
export function directoryOf(entries: readonly Entry[], offset: number, zip64FromBytes: number): Buffer {
  const directory = Buffer.concat(entries.map(directoryHeader))
  return Buffer.concat([directory, endOf({ entries: entries.length, offset, bytes: directory.length }, zip64FromBytes)])
}

/** The end of a directory, with the records of zip64 (4.3.14, 4.3.15) before it where a number does not fit. */
export function endOf(
  { entries, offset, bytes }: { entries: number; offset: number; bytes: number }, zip64FromBytes: number
): Buffer {
  const end = Buffer.alloc(endBytes)
  end.writeUInt32LE(signatures.end, 0)
  end.writeUInt16LE(Math.min(entries, maxUint16), 8)
  end.writeUInt16LE(Math.min(entries, maxUint16), 10)
  end.writeUInt32LE(Math.min(bytes, maxUint32), 12)
  end.writeUInt32LE(offset < zip64FromBytes ? offset : maxUint32, 16)
  const fits = entries < maxUint16 && bytes < maxUint32 && offset < zip64FromBytes
  if (fits) return end
  const end64 = Buffer.alloc(end64Bytes)
  end64.writeUInt32LE(signatures.end64, 0)
  end64.writeBigUInt64LE(44n, 4)
  end64.writeUInt16LE(madeByUnix, 12)
  end64.writeUInt16LE(zip64Version, 14)
  for (const at of [24, 32]) end64.writeBigUInt64LE(BigInt(entries), at)
  end64.writeBigUInt64LE(BigInt(bytes), 40)
  end64.writeBigUInt64LE(BigInt(offset), 48)
  const locator = Buffer.alloc(locatorBytes)
  locator.writeUInt32LE(signatures.locator64, 0)
  locator.writeBigUInt64LE(BigInt(offset + bytes), 8)
  locator.writeUInt32LE(1, 16)
  return Buffer.concat([end64, locator, end])
}

/** 4.5.3 */
export function zip64(numbers: readonly number[]): Buffer {
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
