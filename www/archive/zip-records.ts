/*
 * The records of a zip (PKWARE APPNOTE 6.3.10), as bytes; sizes and sums are known before a record is written, so there
 * are no data descriptors, and no ZIP64.
 *
 *   local header  4.3.7   before the data of each entry
 *   central header  4.3.12  of each entry once more, at the end
 *   end record  4.3.16   how many, and where the central headers are
 *
 * The time is written twice: in the fields of the header, in which DOS kept local time in steps of two seconds, and in an
 * extra field (4.5.2 and Info-ZIP's extrafld: 0x5455), in seconds since 1970, which every reader of today prefers.
 */

/** What the headers say of an entry. */
export interface EntryRecord {
  /** UTF-8. A directory's ends with a slash. */
  name: Uint8Array
  mode: number
  mtimeMs: number
  isDeflated: boolean
  crc: number
  /** In the zip. */
  packedBytes: number
  bytes: number
}

const signatures = { local: 0x04034b50, central: 0x02014b50, end: 0x06054b50 }
/** 4.4.3: version 2.0, which knows deflate and directories. */
const version = 20
/** 4.4.2: the upper byte says whose attributes follow, Unix. */
const madeBy = (3 << 8) | version
/** 4.4.4: the name is UTF-8. */
const flags = 0x0800
const timeField = { id: 0x5455, bytes: 5, hasMtime: 1 }
const extraBytes = 4 + timeField.bytes
/** 4.4.15, from DOS: a directory. */
const directoryAttribute = 0x10

/** Writes one after the other, little end first. */
interface Writer {
  view: DataView
  u8(value: number): void
  u16(value: number): void
  u32(value: number): void
  raw(value: Uint8Array): void
}

function writer(bytes: number): Writer {
  const view = new DataView(new ArrayBuffer(bytes))
  let at = 0
  return {
    view,
    u8: value => view.setUint8(at++, value),
    u16(value) {
      view.setUint16(at, value, true)
      at += 2
    },
    u32(value) {
      view.setUint32(at, value >>> 0, true)
      at += 4
    },
    raw(value) {
      new Uint8Array(view.buffer).set(value, at)
      at += value.length
    }
  }
}

export function localHeader(entry: EntryRecord): Uint8Array<ArrayBuffer> {
  const out = writer(30 + entry.name.length + extraBytes)
  out.u32(signatures.local)
  writeShared(out, entry)
  out.raw(entry.name)
  writeTime(out, entry)
  return new Uint8Array(out.view.buffer as ArrayBuffer)
}

/** `offset`: of the entry's local header from the start of the zip. */
export function centralHeader(entry: EntryRecord, offset: number): Uint8Array<ArrayBuffer> {
  const isDirectory = entry.name.at(-1) === 0x2f
  const out = writer(46 + entry.name.length + extraBytes)
  out.u32(signatures.central)
  out.u16(madeBy)
  writeShared(out, entry)
  out.u16(0) // comment
  out.u16(0) // disk
  out.u16(0) // internal attributes
  out.u32(((entry.mode << 16) >>> 0) + (isDirectory ? directoryAttribute : 0))
  out.u32(offset)
  out.raw(entry.name)
  writeTime(out, entry)
  return new Uint8Array(out.view.buffer as ArrayBuffer)
}

export function endRecord(
  { entries, centralBytes, centralOffset }: { entries: number; centralBytes: number; centralOffset: number }
): Uint8Array<ArrayBuffer> {
  const out = writer(22)
  out.u32(signatures.end)
  out.u16(0) // this disk
  out.u16(0) // the disk of the central headers
  out.u16(entries)
  out.u16(entries)
  out.u32(centralBytes)
  out.u32(centralOffset)
  out.u16(0) // comment
  return new Uint8Array(out.view.buffer as ArrayBuffer)
}

/** The fields that both headers have, in the order that both have them. */
function writeShared(out: Writer, entry: EntryRecord): void {
  const { date, time } = dosTime(entry.mtimeMs)
  out.u16(version)
  out.u16(flags)
  out.u16(entry.isDeflated ? 8 : 0)
  out.u16(time)
  out.u16(date)
  out.u32(entry.crc)
  out.u32(entry.packedBytes)
  out.u32(entry.bytes)
  out.u16(entry.name.length)
  out.u16(extraBytes)
}

function writeTime(out: Writer, { mtimeMs }: EntryRecord): void {
  out.u16(timeField.id)
  out.u16(timeField.bytes)
  out.u8(timeField.hasMtime)
  out.u32(Math.floor(mtimeMs / 1000))
}

/** 4.4.6; what DOS cannot say is its first or last year. */
function dosTime(ms: number): { date: number; time: number } {
  const at = new Date(ms)
  const year = Math.min(127, Math.max(0, at.getFullYear() - 1980))
  return {
    date: (year << 9) | ((at.getMonth() + 1) << 5) | at.getDate(),
    time: (at.getHours() << 11) | (at.getMinutes() << 5) | (at.getSeconds() >> 1)
  }
}
