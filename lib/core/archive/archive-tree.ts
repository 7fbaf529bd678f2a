/*
 * The tree of a zip: what its files would be in an empty directory (base/shared/tree-text.ts). Every entry is read and its
 * checksum verified, so a damaged archive is refused.
 */
import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createTreeDigest } from '../../model/manifest.js'
import { packedMode, treeOrder } from '../../base/shared/tree-text.js'
import { createEntryReader, type EntryReader } from './entry-data.js'
import type { Archive, ArchiveEntry } from './read.js'
import type { TimedEntry } from './tree.js'

export interface ArchiveTree {
  treeSha256: string
  /** Number of files and symbolic links. */
  fileCount: number
  /** Total size of the files in bytes. */
  bytes: number
}

/** About 5 ms of work. Other requests get their turn in between. */
const bytesPerTurn = 2 * 1024 * 1024
/** An entry costs as much as these bytes, even if it is empty. */
const entryCost = 16 * 1024

/** Returns the tree of an archive. Refuses what the reading of its entries refuses. Throws the reason of an aborted signal. */
export async function treeOfArchive(archive: Archive, signal: AbortSignal): Promise<ArchiveTree> {
  const entries = await entriesOfArchive(archive, { signal })
  const tree = createTreeDigest()
  for (const entry of entries) tree.add(entry)
  return {
    treeSha256: tree.end(),
    fileCount: entries.length,
    bytes: entries.reduce((sum, { size }) => sum + size, 0)
  }
}

/** How to read the entries of an archive. */
interface ReadingEntries {
  /** Gives the sorted entries the digests that need not be read. */
  digest?: (entries: readonly TimedEntry[]) => Promise<void>
  signal?: AbortSignal | undefined
}

/**
 * Returns the files and links of an archive with their digests, sorted (`compareTreePaths`). Refuses what the reading of
 * its entries refuses. Throws the reason of an aborted signal, and what `digest` throws.
 */
export async function entriesOfArchive(
  archive: Pick<Archive, 'entries' | 'file' | 'fileSize'>,
  { digest, signal }: ReadingEntries = {}
): Promise<TimedEntry[]> {
  const packed = archive.entries.filter(({ kind }) => kind !== 'directory')
  const entries = packed.map((entry): TimedEntry => {
    const { path, size, mtimeMs } = entry
    return { path, mode: packedMode(entry), size, sha256: '', mtimeMs: mtimeMs ?? 0 }
  })
  const sorted = [...entries].sort(orderOf(entries))
  await digest?.(sorted)
  const reader = createEntryReader(archive)
  let sinceTurn = 0
  for (const [at, entry] of packed.entries()) {
    const found = entries[at] as TimedEntry
    if (found.sha256 !== '') continue
    found.sha256 = await hashOf(entry, reader)
    sinceTurn += entry.size + entryCost
    if (sinceTurn < bytesPerTurn) continue
    sinceTurn = 0
    await nextTurn()
    signal?.throwIfAborted()
  }
  return sorted
}

function orderOf(entries: readonly TimedEntry[]): (a: TimedEntry, b: TimedEntry) => number {
  const order = treeOrder(entries.map(({ path }) => path))
  return (a, b) => order(a.path, b.path)
}

async function hashOf(entry: ArchiveEntry, reader: EntryReader): Promise<string> {
  const hash = createHash('sha256')
  await reader.read(entry, piece => void hash.update(piece))
  return hash.digest('hex')
}
