/*
 * The records of a zip as they are written (PKWARE APPNOTE): the local header (4.3.7), the directory's (4.3.12), and the
 * end of the directory (4.3.14 to 4.3.16). Numbers that do not fit are 0xffff or 0xffffffff, and stand in the zip64 extra
 * field (4.5.3).
 *
 * Differences: no comments, no encryption; names are UTF-8 (bit 11), times are in the extended timestamp field (0x5455),
 * too. An entry that is streamed has its CRC and sizes behind its contents, in a data descriptor (4.3.9, bit 3).
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
/** Sizes and places from here on are written as zip64 has them: a source this large may not fit when deflating makes it grow. */
export const defaultZip64FromBytes = 0xff000000
/** Where a number is in the zip64 field instead. */
export const maxUint32 = 0xffffffff
const utf8Names = 0x0800
const withDescriptor = 0x0008
const localBytes = 30
const centralBytes = 46
const timestampBytes = 9
const madeByUnix = 0x033f
const plainVersion = 20
const maxUint16 = 0xffff
const signatures = {
  local: 0x04034b50, descriptor: 0x08074b50, central: 0x02014b50, end: 0x06054b50, end64: 0x06064b50, locator64: 0x07064b50
}

/** An entry that is written, as the directory tells of it. */
export interface Entry {
  source: ZipSource
  name: string
  nameBytes: number
  method: number
  crc: number
  bytes: number
  packedBytes: number
  offset: number
  needsZip64: boolean
  /** Its offset needs zip64, too, which only the directory tells. */
  isFar: boolean
  /** Its CRC and sizes stand behind its contents, in a descriptor. */
  isStreamed: boolean
}

/** An entry whose contents are still to be written; `zip64FromBytes`: sizes and places that are written as zip64 has them. */
export function begin(source: ZipSource, offset: number, zip64FromBytes: number): Entry {
  const name = source.kind === 'directory' ? `${source.path}/` : source.path
  const bytes = source.kind === 'symlink' ? Buffer.byteLength(source.source) : source.kind === 'directory' ? 0 : source.bytes
  return {
    source, name, nameBytes: Buffer.byteLength(name), method: stored, crc: 0, bytes, packedBytes: 0, offset,
    needsZip64: bytes >= zip64FromBytes, isFar: offset >= zip64FromBytes, isStreamed: false
  }
}

/** 4.3.7. Of the same length whatever the CRC and the sizes turn out to be. */
export function localHeader(entry: Entry): Buffer {
  const header = Buffer.alloc(localHeaderBytes(entry))
  writeLocalHeader(entry, header, 0)
  return header
}

/** The length of its local header. */
export function localHeaderBytes({ nameBytes, needsZip64 }: Entry): number {
  return localBytes + nameBytes + timestampBytes + (needsZip64 ? zip64Bytes(2) : 0)
}

/** Writes the local header. */
export function writeLocalHeader(entry: Entry, into: Buffer, at: number): void {
  const { needsZip64, isStreamed } = entry
  const told = isStreamed ? { ...entry, crc: 0, bytes: 0, packedBytes: 0 } : entry
  into.writeUInt32LE(signatures.local, at)
  writeShared(told, into, { at: at + 4, extraAt: at + localBytes + entry.nameBytes, is64: needsZip64, numbers: [told.bytes, told.packedBytes] })
  into.write(entry.name, at + localBytes)
}

/** 4.3.9 */
export function descriptorOf({ crc, bytes, packedBytes, needsZip64 }: Entry): Buffer {
  const descriptor = Buffer.alloc(needsZip64 ? 24 : 16)
  descriptor.writeUInt32LE(signatures.descriptor, 0)
  descriptor.writeUInt32LE(crc, 4)
  for (const [index, number] of [packedBytes, bytes].entries()) {
    if (needsZip64) descriptor.writeBigUInt64LE(BigInt(number), 8 + 8 * index)
    else descriptor.writeUInt32LE(number, 8 + 4 * index)
  }
  return descriptor
}

/** The length of an entry's record in the directory. */
export function directoryHeaderBytes({ nameBytes, needsZip64, isFar }: Entry): number {
  return centralBytes + nameBytes + timestampBytes + (needsZip64 || isFar ? zip64Bytes(3) : 0)
}

/** 4.3.12. Writes it into memory that is zero. */
function writeDirectoryHeader(entry: Entry, into: Buffer, at: number): void {
  const { source, nameBytes, bytes, packedBytes, offset, needsZip64, isFar } = entry
  const is64 = needsZip64 || isFar
  into.writeUInt32LE(signatures.central, at)
  into.writeUInt16LE(madeByUnix, at + 4)
  writeShared(entry, into, { at: at + 6, extraAt: at + centralBytes + nameBytes, is64, numbers: [bytes, packedBytes, offset] })
  into.writeUInt32LE((unixMode(source) << 16) >>> 0, at + 38)
  into.writeUInt32LE(is64 ? maxUint32 : offset, at + 42)
  into.write(entry.name, at + centralBytes)
}

interface Shared {
  at: number
  extraAt: number
  is64: boolean
  /** What the zip64 field tells. */
  numbers: number[]
}

/** What both headers have, from the version that is needed to the length of the extra field, and that field. */
function writeShared(entry: Entry, into: Buffer, { at, extraAt, is64, numbers }: Shared): void {
  into.writeUInt16LE(is64 ? zip64Version : plainVersion, at)
  into.writeUInt16LE(utf8Names | (entry.isStreamed ? withDescriptor : 0), at + 2)
  into.writeUInt16LE(entry.method, at + 4)
  writeDosTime(into, at + 6, entry.source.mtimeMs)
  into.writeUInt32LE(entry.crc, at + 10)
  into.writeUInt32LE(is64 ? maxUint32 : entry.packedBytes, at + 14)
  into.writeUInt32LE(is64 ? maxUint32 : entry.bytes, at + 18)
  into.writeUInt16LE(entry.nameBytes, at + 22)
  into.writeUInt16LE(timestampBytes + (is64 ? zip64Bytes(numbers.length) : 0), at + 24)
  writeTimestamp(entry.source, into, extraAt)
  if (is64) zip64(numbers).copy(into, extraAt + timestampBytes)
}

/** The directory and its end. */
export function directoryOf(entries: readonly Entry[], offset: number, zip64FromBytes: number): Buffer {
  const directory = Buffer.alloc(entries.reduce((sum, entry) => sum + directoryHeaderBytes(entry), 0))
  let at = 0
  for (const entry of entries) {
    writeDirectoryHeader(entry, directory, at)
    at += directoryHeaderBytes(entry)
  }
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

function zip64Bytes(numbers: number): number {
  return 4 + 8 * numbers
}

/** 4.5.3 */
export function zip64(numbers: readonly number[]): Buffer {
  const field = Buffer.alloc(zip64Bytes(numbers.length))
  field.writeUInt16LE(0x0001, 0)
  field.writeUInt16LE(8 * numbers.length, 2)
  for (const [index, number] of numbers.entries()) field.writeBigUInt64LE(BigInt(number), 4 + 8 * index)
  return field
}

/** Info-ZIP's extended timestamp: seconds of the last change. */
function writeTimestamp({ mtimeMs }: ZipSource, into: Buffer, at: number): void {
  into.writeUInt16LE(0x5455, at)
  into.writeUInt16LE(timestampBytes - 4, at + 2)
  into.writeUInt8(1, at + 4)
  into.writeInt32LE(Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, Math.floor(mtimeMs / 1000))), at + 5)
}

/** 4.4.6: local time, from 1980 on, to two seconds. */
function writeDosTime(head: Buffer, at: number, mtimeMs: number): void {
  const time = new Date(mtimeMs)
  const year = Math.max(0, Math.min(127, time.getFullYear() - 1980))
  head.writeUInt16LE((time.getHours() << 11) | (time.getMinutes() << 5) | (time.getSeconds() >> 1), at)
  head.writeUInt16LE((year << 9) | ((time.getMonth() + 1) << 5) | time.getDate(), at + 2)
}
