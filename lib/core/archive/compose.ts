/*
 * Composes a zip of entries of other zips. The packed bytes are copied as they are, without inflating them, so a
 * composition costs about as much as copying. The contents are checked where the zip is extracted.
 */

import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { createHash, type Hash } from 'node:crypto'
import type { ReadableFile } from '../../base/files.js'
import {
  defaultZip64FromBytes,
  directoryOf,
  localBytes,
  localHeader,
  newRecord,
  signatures,
  type ZipRecord
} from '../../base/shared/zip-records.js'
import { refuse } from './names.js'
import { anyArchive, openKept } from './pack-set.js'
import type { Archive, ArchiveEntry } from './read.js'

export interface ComposedEntry {
  path: string
  /** File type and permission bits. */
  mode: number
  mtimeMs: number
  /** The path of the zip that contains its contents; null for a directory. */
  source: string | null
  /** The path of the contents in that zip; absent: the same path. */
  sourcePath?: string
}

export interface Composed {
  bytes: number
  sha256: string
}

/** How a composition is completed. */
export interface ComposeOptions {
  /** Bytes after the zip (pack-index.ts). */
  trailer?: Uint8Array
  /** Gives the complete file its name. */
  place?: (from: string, to: string) => Promise<void>
}

const blockBytes = 1024 * 1024
const directoryBits = 0o040000
const typeBits = 0o170000

/**
 * Writes a zip of these entries. The file is complete and synced when this resolves; its name is not synced. Refuses what
 * `openArchive` refuses, and (`invalid`) damaged_archive for a zip that lacks an entry.
 */
export async function composeArchive(
  path: string,
  entries: readonly ComposedEntry[],
  { trailer = new Uint8Array(), place = rename }: ComposeOptions = {}
): Promise<Composed> {
  const beside = `${path}.tmp`
  try {
    const file = await open(beside, 'w', 0o600)
    try {
      const composed = await write(file, entries, trailer)
      await file.datasync()
      await place(beside, path)
      return composed
    } finally {
      await file.close()
    }
  } catch (error) {
    await rm(beside, { force: true }).catch(() => {})
    throw error
  }
}

async function write(file: FileHandle, entries: readonly ComposedEntry[], trailer: Uint8Array): Promise<Composed> {
  const writer = createWriter(file)
  const records: ZipRecord[] = []
  for (const [source, wanted] of groupBy(entries, entry => entry.source)) {
    if (source !== null) {
      await copyFrom(source, wanted, { writer, records })
      continue
    }
    for (const directory of wanted) {
      const record = recordOf(directory, { size: 0, offset: writer.offset() })
      await writer.add(localHeader(record))
      records.push(record)
    }
  }
  await writer.add(directoryOf(records, writer.offset()))
  await writer.add(trailer)
  return writer.end()
}

function groupBy<Key>(
  entries: readonly ComposedEntry[],
  keyOf: (entry: ComposedEntry) => Key
): Map<Key, ComposedEntry[]> {
  const groups = new Map<Key, ComposedEntry[]>()
  for (const entry of entries) {
    const group = groups.get(keyOf(entry))
    if (group === undefined) groups.set(keyOf(entry), [entry])
    else group.push(entry)
  }
  return groups
}

interface Writing {
  writer: Writer
  records: ZipRecord[]
}

/** Copies entries of one zip, in the order of its bytes. */
async function copyFrom(source: string, wanted: readonly ComposedEntry[], { writer, records }: Writing): Promise<void> {
  const byPath = groupBy(wanted, ({ path, sourcePath = path }) => sourcePath)
  const archive = await openKept(source, anyArchive)
  try {
    const window = createWindow(archive.file)
    for (const found of archive.entries) {
      const copies = byPath.get(found.path) ?? []
      byPath.delete(found.path)
      for (const entry of copies) {
        const record = recordOf(entry, { ...found, offset: writer.offset() })
        records.push(record)
        await writer.add(localHeader(record))
        for await (const piece of packedBytes(window, found)) await writer.add(piece)
      }
    }
  } finally {
    archive.close()
  }
  const [missing] = byPath.keys()
  if (missing !== undefined) throw refuse('damaged_archive', missing, 'the archive does not contain it')
}

function recordOf(
  { path, mode, mtimeMs }: ComposedEntry,
  found: { size: number; offset: number } & Partial<Pick<ArchiveEntry, 'method' | 'crc32' | 'compressedSize'>>
): ZipRecord {
  const isDirectory = (mode & typeBits) === directoryBits
  const name = Buffer.from(isDirectory ? `${path}/` : path)
  const attributes = (mode & 0xffff) * 0x10000
  const record = newRecord({ name, mtimeMs, attributes, bytes: found.size, offset: found.offset })
  record.method = found.method ?? record.method
  record.crc = (found.crc32 ?? 0) >>> 0
  record.packedBytes = found.compressedSize ?? 0
  return record
}

/** Yields the packed bytes of an entry. A piece is valid until the next one. */
async function* packedBytes(window: Window, entry: ArchiveEntry): AsyncGenerator<Buffer> {
  const header = await window.read(entry.headerOffset, localBytes)
  if (header.length < localBytes || header.readUInt32LE(0) !== signatures.local) {
    throw refuse('damaged_zip', entry.path, 'its local header is missing at the declared offset')
  }
  let at = entry.headerOffset + localBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
  const end = at + entry.compressedSize
  if (end > entry.limitOffset) {
    throw refuse('overlapping_entries', entry.path, 'its bytes overlap those of the next entry')
  }
  while (at < end) {
    const piece = await window.read(at, Math.min(blockBytes, end - at))
    if (piece.length === 0) throw refuse('truncated_zip', entry.path, 'the archive ends in the middle of it')
    yield piece
    at += piece.length
  }
}

type Window = ReturnType<typeof createWindow>

/** Reads a file in blocks: neighbouring entries cost one call. */
function createWindow(file: ReadableFile) {
  const block = Buffer.allocUnsafeSlow(blockBytes)
  let start = 0
  let length = 0
  return {
    /** Returns at most `length` bytes, which are valid until the next call; fewer only at the end of the file. */
    async read(position: number, wanted: number): Promise<Buffer> {
      if (position < start || position + wanted > start + length) {
        start = position
        length = await file.read(block, position)
      }
      return block.subarray(position - start, Math.min(position - start + wanted, length))
    }
  }
}

type Writer = ReturnType<typeof createWriter>

/** Collects small pieces and writes them in blocks. */
function createWriter(file: FileHandle) {
  const hash: Hash = createHash('sha256')
  const block = Buffer.allocUnsafeSlow(blockBytes)
  let filled = 0
  let offset = 0

  async function flush(): Promise<void> {
    const bytes = block.subarray(0, filled)
    hash.update(bytes)
    await file.writeFile(bytes)
    filled = 0
  }

  return {
    offset: (): number => offset,
    async add(bytes: Uint8Array): Promise<void> {
      for (let done = 0; done < bytes.length; ) {
        const part = bytes.subarray(done, done + blockBytes - filled)
        block.set(part, filled)
        filled += part.length
        done += part.length
        if (filled === blockBytes) await flush()
      }
      offset += bytes.length
    },
    async end(): Promise<Composed> {
      await flush()
      return { bytes: offset, sha256: hash.digest('hex') }
    }
  }
}

/*
 * Finds what a new archive has in common with an earlier one, before its contents are there: the packed bytes of entries
 * with the same path, CRC and sizes. An archive that the server composed of an earlier one, or that the
 * same program packed, has them unchanged. Nothing but the descriptor follows them, as svc writes archives. That, and
 * equal CRCs, prove nothing, so the digest of a joined archive must be checked.
 */

/** Bytes of an archive, in order and without gaps. */
export interface Segment {
  bytes: number
  /** Where they are in the earlier archive; null: it does not have them. */
  from: number | null
}

/** Packed bytes that both archives have: offset, length, and offset in the earlier archive. */
interface Found {
  at: number
  bytes: number
  from: number
}

/** Packed bytes that are fewer than these are not worth a segment. */
const minBytes = 512

/**
 * Returns the segments of an archive up to its directory, whose offset is `end`. At most `most` of them, the largest ones,
 * are in the earlier archive.
 */
export async function segmentsOf(
  entries: readonly ArchiveEntry[],
  { end, earlier, most }: { end: number; earlier: Archive; most: number }
): Promise<Segment[]> {
  const byPath = new Map(earlier.entries.map(entry => [entry.path, entry]))
  const alike = entries.filter(entry => {
    const other = byPath.get(entry.path)
    return other !== undefined && entry.compressedSize >= minBytes && isAlike(entry, other)
  })
  const largest = alike.sort((a, b) => b.compressedSize - a.compressedSize).slice(0, most)
  const found: Found[] = []
  const header = Buffer.alloc(localBytes)
  for (const entry of largest.sort((a, b) => a.headerOffset - b.headerOffset)) {
    const other = byPath.get(entry.path) as ArchiveEntry
    const { headerOffset } = other
    if ((await earlier.file.read(header, headerOffset)) < localBytes) continue
    const headerBytes = localBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
    const isSameForm = spanOf(entry) === spanOf(other)
    // A composed archive has other headers, and no descriptors.
    const at = isSameForm
      ? entry.headerOffset + headerBytes
      : entry.limitOffset - descriptorBytes(entry) - entry.compressedSize
    if (at < entry.headerOffset + localBytes || at + entry.compressedSize > entry.limitOffset) continue
    found.push({ at, bytes: entry.compressedSize, from: headerOffset + headerBytes })
  }
  return withGaps(found, end)
}

function withGaps(found: readonly Found[], end: number): Segment[] {
  const segments: Segment[] = []
  let at = 0
  for (const { at: begin, bytes, from } of found) {
    if (begin > at) segments.push({ bytes: begin - at, from: null })
    segments.push({ bytes, from })
    at = begin + bytes
  }
  if (end > at) segments.push({ bytes: end - at, from: null })
  return segments
}

/** Whether the entries have the same contents. */
function isAlike(a: ArchiveEntry, b: ArchiveEntry): boolean {
  return a.crc32 === b.crc32 && a.size === b.size && a.compressedSize === b.compressedSize && a.method === b.method
}

/** Returns the size of the data descriptor that follows the bytes of an entry. */
function descriptorBytes({ isStreamed, size, compressedSize }: ArchiveEntry): number {
  if (isStreamed === undefined) return 0
  return Math.max(size, compressedSize) >= defaultZip64FromBytes ? 24 : 16
}

function spanOf({ headerOffset, limitOffset }: ArchiveEntry): number {
  return limitOffset - headerOffset
}
