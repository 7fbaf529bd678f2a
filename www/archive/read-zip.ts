/*
 * Reads the contents of a zip from its central directory (PKWARE APPNOTE 4.3.12 to 4.3.16), to show and check it before
 * the upload. Refuses only what the server always refuses.
 */
import {
  centralBytes,
  end64Bytes,
  endBytes,
  locatorBytes,
  maxUint16,
  maxUint32,
  signatures,
  timestampId,
  zip64Id
} from '../shared/zip-records.js'
import { t } from '../words/t.js'

export interface ZipEntry {
  path: string
  isDirectory: boolean
  /** Uncompressed size. */
  bytes: number
  isEncrypted: boolean
  /** Whether the server reads the same name. If not, it is in an encoding that the zip does not declare. */
  isNameSure: boolean
  /** `stored`, `deflated`, or another method, which the server refuses. */
  method: number
  /** Compressed size. */
  packedBytes: number
  /** Offset of the local header. */
  offset: number
  /** The Unix mode with its file type; 0 if the zip was made on Windows. */
  unixMode: number
  /** Null if the zip does not contain it. */
  mtimeMs: number | null
}

/** A file that is not a zip or that the server would refuse. The message is for the user. */
export class CannotRead extends Error {
  override readonly name = 'CannotRead'
}

const maxCommentBytes = 0xffff
const encrypted = 0x0001
/** The flag of a name in UTF-8 (4.4.4). */
const utf8Name = 0x0800
/** The header ID of Info-ZIP's Unicode path (4.6.9). */
const unicodePathId = 0x7075
/** Host systems of "version made by" (4.4.2) whose names are UTF-8 in practice, and that store a mode: Unix, macOS. */
const unixHosts = new Set([3, 19])

/** Returns the entries in the order of the directory. Rejects with CannotRead or the error of reading the file. */
export async function readZip(file: Blob & { readonly name: string }): Promise<ZipEntry[]> {
  const { name } = file
  if (file.size === 0) throw new CannotRead(t('“{name}” is an empty file.', { name }))
  const directory = await findDirectory(file)
  if (directory === null) throw notZip(name)
  const view = await viewOf(file, directory.offset, directory.offset + directory.bytes)
  const entries: ZipEntry[] = []
  for (let at = 0; entries.length < directory.entries; ) {
    if (at + centralBytes > view.byteLength || view.getUint32(at, true) !== signatures.central) throw notZip(name)
    const next =
      at + centralBytes + view.getUint16(at + 28, true) + view.getUint16(at + 30, true) + view.getUint16(at + 32, true)
    if (next > view.byteLength) throw notZip(name)
    entries.push(entryAt(view, at))
    at = next
  }
  return entries
}

const notZip = (name: string): CannotRead =>
  new CannotRead(t('“{name}” is not a zip archive, or only a part of one. Pack it again as a zip.', { name }))

interface Directory {
  offset: number
  bytes: number
  entries: number
}

async function viewOf(file: Blob, from: number, to: number): Promise<DataView> {
  return new DataView(await file.slice(Math.max(0, from), to).arrayBuffer())
}

/** Finds the directory by the record at the end. Null if there is none or its offset is outside of the file. */
async function findDirectory(file: Blob): Promise<Directory | null> {
  const start = Math.max(0, file.size - endBytes - maxCommentBytes)
  const tail = await viewOf(file, start, file.size)
  for (let at = tail.byteLength - endBytes; at >= 0; at--) {
    if (tail.getUint32(at, true) !== signatures.end || at + endBytes + tail.getUint16(at + 20, true) > tail.byteLength)
      continue
    const found: Directory = {
      entries: tail.getUint16(at + 10, true),
      bytes: tail.getUint32(at + 12, true),
      offset: tail.getUint32(at + 16, true)
    }
    const is64 = found.entries === maxUint16 || found.bytes === maxUint32 || found.offset === maxUint32
    const directory = is64 ? ((await findDirectory64(file, start + at)) ?? found) : found
    return directory.offset + directory.bytes <= start + at ? directory : null
  }
  return null
}

async function findDirectory64(file: Blob, endAt: number): Promise<Directory | null> {
  if (endAt < locatorBytes) return null
  const locator = await viewOf(file, endAt - locatorBytes, endAt)
  if (locator.getUint32(0, true) !== signatures.locator64) return null
  const at = Number(locator.getBigUint64(8, true))
  if (at + end64Bytes > endAt) return null
  const end = await viewOf(file, at, at + end64Bytes)
  if (end.getUint32(0, true) !== signatures.end64) return null
  const number = (place: number): number => Number(end.getBigUint64(place, true))
  return { entries: number(32), bytes: number(40), offset: number(48) }
}

function entryAt(view: DataView, at: number): ZipEntry {
  const nameAt = at + centralBytes
  const nameBytes = view.getUint16(at + 28, true)
  const isUnix = unixHosts.has(view.getUint16(at + 4, true) >>> 8)
  const flags = view.getUint16(at + 8, true)
  const name = nameOf(new Uint8Array(view.buffer, view.byteOffset + nameAt, nameBytes))
  const fields = fieldsOf(view, nameAt + nameBytes, view.getUint16(at + 30, true))
  const numbers64 = numbersIn(fields.get(zip64Id))
  const number = (place: number): number => {
    const told = view.getUint32(place, true)
    return told === maxUint32 ? (numbers64.shift() ?? told) : told
  }
  // The zip64 field contains the numbers that do not fit, in this order (4.5.3).
  const [bytes, packedBytes, offset] = [number(at + 24), number(at + 20), number(at + 42)]
  return {
    path: name.path,
    isNameSure: name.isAscii || (name.isUtf8 && (isUnix || (flags & utf8Name) !== 0) && !fields.has(unicodePathId)),
    isDirectory: name.path.endsWith('/'),
    bytes,
    packedBytes,
    offset,
    method: view.getUint16(at + 10, true),
    unixMode: isUnix ? view.getUint32(at + 38, true) >>> 16 : 0,
    mtimeMs: timeIn(fields.get(timestampId)) ?? dosTime(view.getUint16(at + 14, true), view.getUint16(at + 12, true)),
    isEncrypted: (flags & encrypted) !== 0
  }
}

/** Returns the contents of the extra fields by their ID (4.5.1). */
function fieldsOf(view: DataView, extraAt: number, extraBytes: number): Map<number, DataView> {
  const fields = new Map<number, DataView>()
  for (let at = extraAt; at + 4 <= extraAt + extraBytes; ) {
    const bytes = view.getUint16(at + 2, true)
    if (at + 4 + bytes > extraAt + extraBytes) break
    fields.set(view.getUint16(at, true), new DataView(view.buffer, view.byteOffset + at + 4, bytes))
    at += 4 + bytes
  }
  return fields
}

function numbersIn(field: DataView | undefined): number[] {
  const count = Math.floor((field?.byteLength ?? 0) / 8)
  return Array.from({ length: count }, (_, index) => Number((field as DataView).getBigUint64(index * 8, true)))
}

/** Returns the modification time in Info-ZIP's extended timestamp. */
function timeIn(field: DataView | undefined): number | null {
  if (field === undefined || field.byteLength < 5 || (field.getUint8(0) & 1) === 0) return null
  return field.getInt32(1, true) * 1000
}

/** Returns a DOS time (4.4.6), which is local time. */
function dosTime(date: number, time: number): number | null {
  if (date === 0) return null
  const day = [1980 + (date >>> 9), ((date >>> 5) & 15) - 1, date & 31] as const
  return new Date(...day, time >>> 11, (time >>> 5) & 63, (time & 31) * 2).getTime()
}

/** Decodes a name. Names that are not UTF-8 are read as Latin-1, because nearly all are ASCII. */
function nameOf(bytes: Uint8Array): { path: string; isUtf8: boolean; isAscii: boolean } {
  try {
    const path = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return { path, isUtf8: true, isAscii: path.length === bytes.length }
  } catch {
    return { path: new TextDecoder('latin1').decode(bytes), isUtf8: false, isAscii: false }
  }
}
