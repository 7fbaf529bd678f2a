import { createHash } from 'node:crypto'
import { treeHead, treeLine, type TreeEntry } from '../shared/tree-text.js'

/** A file or symbolic link that svc put into a target and that no later deployment replaced. */
export interface OwnedEntry extends TreeEntry {
  /** Modification time in milliseconds since 1970; null if the manifest of an earlier version does not say it. */
  mtimeMs: number | null
  /** The number of its inode; null like `mtimeMs`. */
  ino: number | null
  /** The deployment that put it there, or last replaced it. */
  since: string
}

/** Computes the `treeSha256` of a tree whose entries come one by one, in the order of `compareTreePaths`. */
export interface TreeDigest {
  add(entry: TreeEntry): void
  /** Returns the SHA-256 of the canonical text in hex digits. Call it once. */
  end(): string
}

/** Length of the text that is hashed in one call. */
const batchLength = 16 * 1024

/** Creates a digest of an empty tree. */
export function createTreeDigest(): TreeDigest {
  const hash = createHash('sha256')
  // A call for each line would take most of the time.
  let batch = treeHead
  return {
    add(entry) {
      batch += treeLine(entry)
      if (batch.length < batchLength) return
      hash.update(batch)
      batch = ''
    },
    end: () => hash.update(batch).digest('hex')
  }
}
