/*
 * Reads the contents of a zip from its central directory (PKWARE APPNOTE 4.3.12 to 4.3.16), to show and check it before
 * the upload. Refuses only what the server always refuses.
 */
import {
  centralBytes,
  deflated,
  end64Bytes,
  endBytes,
  localBytes,
  locatorBytes,
  maxUint16,
  maxUint32,
  signatures,
  stored,
  zip64Id
} from '../shared/zip-records.js'
import { t } from '../words/t.js'

/** An entry of a zip. */
export interface ZipEntry {
  path: string
  isDirectory: boolean
  /** Uncompressed size. */
  bytes: number
  isEncrypted: boolean
  /** File type and permission bits as in Unix; 0 if the zip has none. */
  mode: number
  /** Returns the contents. Rejects with CannotRead. */
  read(): Promise<ArrayBuffer>
}

/** A file that is not a zip or that the server would refuse. The message is for the user. */
export class CannotRead extends Error {
  override readonly name = 'CannotRead'
}

const maxCommentBytes = 0xffff
const encrypted = 0x0001

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
    entries.push(entryAt(file, view, at))
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

function entryAt(file: Blob & { readonly name: string }, view: DataView, at: number): ZipEntry {
  const nameAt = at + centralBytes
  const nameBytes = view.getUint16(at + 28, true)
  const path = nameOf(new Uint8Array(view.buffer, view.byteOffset + nameAt, nameBytes))
  const told = view.getUint32(at + 24, true)
  return {
    path,
    isDirectory: path.endsWith('/'),
    bytes: told === maxUint32 ? bytes64(view, nameAt + nameBytes, view.getUint16(at + 30, true)) : told,
    isEncrypted: (view.getUint16(at + 8, true) & encrypted) !== 0,
    mode: unixHosts.has(view.getUint8(at + 5)) ? view.getUint32(at + 38, true) >>> 16 : 0,
    read: () =>
      contentsAt(file, {
        method: view.getUint16(at + 10, true),
        packedBytes: view.getUint32(at + 20, true),
        headerAt: view.getUint32(at + 42, true)
      })
  }
}

/** Systems whose external attributes contain a Unix mode (APPNOTE 4.4.2.2). */
const unixHosts = new Set([3, 19])

/** Returns the contents of an entry. Those of zip64 are not read here. */
async function contentsAt(
  file: Blob & { readonly name: string },
  { method, packedBytes, headerAt }: { method: number; packedBytes: number; headerAt: number }
): Promise<ArrayBuffer> {
  const header = await viewOf(file, headerAt, headerAt + localBytes)
  const isThere = header.byteLength === localBytes && header.getUint32(0, true) === signatures.local
  if (!isThere || packedBytes === maxUint32 || (method !== stored && method !== deflated)) throw notZip(file.name)
  const from = headerAt + localBytes + header.getUint16(26, true) + header.getUint16(28, true)
  const packed = file.slice(from, from + packedBytes)
  if (method === stored) return packed.arrayBuffer()
  return new Response(packed.stream().pipeThrough(new DecompressionStream('deflate-raw'))).arrayBuffer()
}

/** Returns the uncompressed size in the zip64 field (4.5.3), where it is the first value. */
function bytes64(view: DataView, extraAt: number, extraBytes: number): number {
  for (let at = extraAt; at + 12 <= extraAt + extraBytes; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) === zip64Id) return Number(view.getBigUint64(at + 4, true))
  }
  return maxUint32
}

/** Decodes a name. Names that are not UTF-8 are read as Latin-1, because nearly all are ASCII. */
function nameOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return new TextDecoder('latin1').decode(bytes)
  }
}
