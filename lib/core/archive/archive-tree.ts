/*
 * The tree of a zip: what its files would be in an empty directory (base/shared/tree-text.ts). Every entry is read and its
 * checksum verified, so a damaged archive is refused.
 */
import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createTreeDigest } from '../../model/manifest.js'
import { compareTreePaths, defaultFileMode, fileType, linkMode } from '../../base/shared/tree-text.js'
import { createEntryReader } from './entry-data.js'
import { openArchive, type ArchiveEntry, type ArchiveLimits } from './read.js'

/** The tree of an archive. */
export interface ArchiveTree {
  treeSha256: string
  /** Number of files and symbolic links. */
  fileCount: number
  /** Total size of the files in bytes. */
  bytes: number
}

/** About 5 ms of work. Other requests get their turn in between. */
const bytesPerTurn = 2 * 1024 * 1024

/**
 * Returns the tree of the zip at `path`. Refuses what `openArchive` and the reading of its entries refuse. Throws the
 * reason of an aborted signal.
 */
export async function treeOfArchive(path: string, limits: ArchiveLimits, signal: AbortSignal): Promise<ArchiveTree> {
  const archive = await openArchive(path, limits)
  try {
    const reader = createEntryReader(archive)
    const files = archive.entries.filter(({ kind }) => kind !== 'directory')
    const digests = new Map<string, string>()
    let [bytes, sinceTurn] = [0, 0]
    for (const entry of files) {
      const hash = createHash('sha256')
      await reader.read(entry, piece => void hash.update(piece))
      digests.set(entry.path, hash.digest('hex'))
      bytes += entry.size
      sinceTurn += entry.size + entryCost
      if (sinceTurn < bytesPerTurn) continue
      sinceTurn = 0
      await nextTurn()
      signal.throwIfAborted()
    }
    const tree = createTreeDigest()
    const sorted = [...files].sort((a, b) => compareTreePaths(a.path, b.path))
    for (const entry of sorted)
      tree.add({
        path: entry.path,
        mode: modeOf(entry),
        size: entry.size,
        sha256: digests.get(entry.path) as string
      })
    return { treeSha256: tree.end(), fileCount: files.length, bytes }
  } finally {
    archive.close()
  }
}

/** An entry costs as much as these bytes, even if it is empty. */
const entryCost = 16 * 1024

function modeOf({ kind, mode }: ArchiveEntry): number {
  if (kind === 'symlink') return linkMode
  return mode === null ? defaultFileMode : fileType | mode
}
