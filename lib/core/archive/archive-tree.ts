/*
 * The tree of a zip: what its files would be in an empty directory (base/shared/tree-text.ts). Every entry is read and its
 * checksum verified, so a damaged archive is refused.
 */
import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createTreeDigest } from '../../model/manifest.js'
import { compareTreePaths, packedMode } from '../../base/shared/tree-text.js'
import { createEntryReader, type EntryReader } from './entry-data.js'
import { openKept } from './pack-set.js'
import type { Archive, ArchiveEntry, ArchiveLimits } from './read.js'
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

/**
 * Returns the tree of the archive at `path`. Refuses what `openKept` and the reading of its entries refuse. Throws the
 * reason of an aborted signal.
 */
export async function treeOfArchive(path: string, limits: ArchiveLimits, signal: AbortSignal): Promise<ArchiveTree> {
  const archive = await openKept(path, limits)
  try {
    const entries = await entriesOfArchive(archive, { signal })
    const tree = createTreeDigest()
    for (const entry of entries) tree.add(entry)
    return {
      treeSha256: tree.end(),
      fileCount: entries.length,
      bytes: entries.reduce((sum, { size }) => sum + size, 0)
    }
  } finally {
    archive.close()
  }
}

/** How to read the entries of an archive. */
interface ReadingEntries {
  /** Returns the digest of an entry that need not be read; undefined: it is read. */
  known?: (entry: ArchiveEntry) => string | undefined
  signal?: AbortSignal | undefined
}

/**
 * Returns the files and links of an archive with their digests, sorted (`compareTreePaths`). Refuses what the reading of
 * its entries refuses. Throws the reason of an aborted signal.
 */
export async function entriesOfArchive(
  archive: Archive,
  { known = () => undefined, signal }: ReadingEntries = {}
): Promise<TimedEntry[]> {
  const reader = createEntryReader(archive)
  const entries: TimedEntry[] = []
  let sinceTurn = 0
  for (const entry of archive.entries) {
    if (entry.kind === 'directory') continue
    const { path, size, mtimeMs } = entry
    const mode = packedMode(entry)
    const digest = known(entry)
    if (digest === undefined) sinceTurn += size + entryCost
    entries.push({ path, mode, size, sha256: digest ?? (await hashOf(entry, reader)), mtimeMs: mtimeMs ?? 0 })
    if (sinceTurn < bytesPerTurn) continue
    sinceTurn = 0
    await nextTurn()
    signal?.throwIfAborted()
  }
  return entries.sort((a, b) => compareTreePaths(a.path, b.path))
}

async function hashOf(entry: ArchiveEntry, reader: EntryReader): Promise<string> {
  const hash = createHash('sha256')
  await reader.read(entry, piece => void hash.update(piece))
  return hash.digest('hex')
}
