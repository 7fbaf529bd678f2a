import { createHash } from 'node:crypto'
import { contentsLine, treeHead, treeLine, type TreeEntry } from '../shared/tree-text.js'

/** A file or symbolic link that svc put into a target and that no later deployment replaced. */
export interface OwnedEntry extends TreeEntry {
  /** Modification time in milliseconds since 1970; null if the manifest of an earlier version does not say it. */
  mtimeMs: number | null
  /** The number of its inode; null like `mtimeMs`. */
  ino: number | null
  /** The number of the group that svc gave it; absent if that is not known. */
  gid?: number
  /** The deployment that put it there, or last replaced it. */
  since: string
}

/** Computes a digest of a tree whose entries come one by one, in the order of `compareTreePaths`. */
export interface TreeDigest {
  add(entry: TreeEntry): void
  /** Returns the SHA-256 in hex digits. Call it once. */
  end(): string
}

/** Length of the text that is hashed in one call. */
const batchLength = 16 * 1024

/** Creates a digest that becomes the `treeSha256`: the SHA-256 of the canonical text. */
export function createTreeDigest(): TreeDigest {
  return digestOfLines(treeHead, treeLine)
}

/**
 * Creates a digest of types, sizes, contents and paths. Permissions are left out: an archive may lack them. `digits` is
 * the number of hex digits of each SHA-256 that it covers.
 */
export function createContentsDigest(digits = fullDigits): TreeDigest {
  if (digits === fullDigits) return digestOfLines('', contentsLine)
  return digestOfLines('', entry => contentsLine({ ...entry, sha256: entry.sha256.slice(0, digits) }))
}

/** Number of hex digits of a SHA-256. */
export const fullDigits = 64

function digestOfLines(head: string, lineOf: (entry: TreeEntry) => string): TreeDigest {
  const hash = createHash('sha256')
  // A call for each line would take most of the time.
  let batch = head
  return {
    add(entry) {
      batch += lineOf(entry)
      if (batch.length < batchLength) return
      hash.update(batch)
      batch = ''
    },
    end: () => hash.update(batch).digest('hex')
  }
}
