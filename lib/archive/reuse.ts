/*
 * Finds what a new archive has in common with an earlier one, before its contents are there: the packed bytes of entries
 * with the same path, CRC and sizes. An archive that the server composed of an earlier one (compose.ts), or that the
 * same program packed, has them unchanged. Equal CRCs prove nothing, so the digest of a joined archive must be checked.
 */
import { localBytes } from '../shared/zip-records.js'
import type { Archive, ArchiveEntry } from './read.js'

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
    const { headerOffset } = byPath.get(entry.path) as ArchiveEntry
    if ((await earlier.file.read(header, headerOffset)) < localBytes) continue
    const headerBytes = localBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
    if (headerBytes + entry.compressedSize > spanOf(entry)) continue
    found.push({ at: entry.headerOffset + headerBytes, bytes: entry.compressedSize, from: headerOffset + headerBytes })
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

/** Whether the entries have the same contents, and headers of the same length. */
function isAlike(a: ArchiveEntry, b: ArchiveEntry): boolean {
  return (
    a.crc32 === b.crc32 &&
    a.size === b.size &&
    a.compressedSize === b.compressedSize &&
    a.method === b.method &&
    spanOf(a) === spanOf(b)
  )
}

function spanOf({ headerOffset, limitOffset }: ArchiveEntry): number {
  return limitOffset - headerOffset
}
