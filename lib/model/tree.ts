import { createHash } from 'node:crypto'
import { treeHead, treeLine, type TreeEntry } from '../shared/tree-text.js'

/** Computes the `treeSha256` of a tree whose entries come one by one, in the order of `compareTreePaths`. */
export interface TreeDigest {
  add(entry: TreeEntry): void
  /** Returns the SHA-256 of the canonical text in hex digits. Call it once. */
  end(): string
}

/** Creates a digest of an empty tree. */
export function createTreeDigest(): TreeDigest {
  const hash = createHash('sha256').update(treeHead)
  return {
    add: entry => void hash.update(treeLine(entry)),
    end: () => hash.digest('hex')
  }
}
