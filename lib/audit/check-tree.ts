import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Store } from '../store/database.js'
import {
  auditBlocks,
  auditLeaves,
  auditTargets,
  newestAuditCheckpoint,
  readAuditTree,
  sealedAudit
} from '../store/tables/audit.js'
import { readCheckpoint } from './checkpoint-text.js'
import { entryText, type SealedEntry } from './entry-text.js'
import { readFrontier, readNodes, rootOfLeaves } from './leaves.js'
import { createGaps, trimmedAction, type Gaps } from './ranges.js'
import { readNote } from './signed-note.js'
import { blockLeaves, frontierAt, hashLeaf, rootOf } from './tree.js'

type Reads = Pick<Store, 'get' | 'all'>

/** A fault of the stored tree. */
export interface TreeFault {
  /** What is wrong, as the end of a sentence. */
  why: string
  /** Whether the frontier or the roots of blocks are wrong, which can be computed from the leaves. */
  isMendable: boolean
}

/**
 * Compares the entries of the log with the leaves of its tree, and the leaves with the frontier and the newest
 * checkpoint, block by block between other work. Returns the first fault, or null.
 */
export async function checkTree(store: Reads, signal?: AbortSignal): Promise<TreeFault | null> {
  const gaps = createGaps()
  for (let block = 0; block * blockLeaves < readAuditTree(store).size; block++) {
    const fault = faultOfBlock(store, block, gaps)
    if (fault !== null) return fault
    await nextTurn()
    if (signal?.aborted) return null
  }
  for (const target of auditTargets(store, trimmedAction)) gaps.announce(target)
  const missing = gaps.unannounced()
  if (missing !== null) return changed(`entry ${missing} is missing, and no entry says that it was removed`)
  return faultOfFrontier(store)
}

function faultOfBlock(store: Reads, block: number, gaps: Gaps): TreeFault | null {
  const { size } = readAuditTree(store)
  const [from, to] = [block * blockLeaves + 1, Math.min((block + 1) * blockLeaves, size)]
  const leaves = auditLeaves(store, from, to)
  const entries = new Map(sealedAudit(store, from, to).map(entry => [entry.seq, entry as SealedEntry]))
  const isComplete = to === (block + 1) * blockLeaves
  const root = isComplete ? auditBlocks(store, block, block).get(block) : undefined
  if (leaves.length === 0 && root !== undefined && entries.size === 0) {
    gaps.miss(from, to)
    return null
  }
  if (leaves.length !== to - from + 1) return changed(`hashes of the entries ${from} to ${to} are missing`)
  for (const { seq, hash } of leaves) {
    const entry = entries.get(seq)
    if (entry === undefined) gaps.miss(seq, seq)
    else if (!hashLeaf(entryText(entry)).equals(hash)) return changed(`entry ${seq} was changed`)
  }
  if (isComplete && !(root !== undefined && rootOfLeaves(store, block)?.equals(root)))
    return { why: `the entries ${from} to ${to} do not give the root of their block`, isMendable: true }
  return null
}

function faultOfFrontier(store: Reads): TreeFault | null {
  const row = readAuditTree(store)
  const frontier = readFrontier(row)
  const read = readNodes(store)
  if (frontier === null || !rootOf(frontier).equals(rootOf(frontierAt(row.size, read))))
    return { why: 'the entries do not give its frontier', isMendable: true }
  const note = readNote(newestAuditCheckpoint(store)?.note ?? '')
  const checkpoint = note === null ? null : readCheckpoint(note.text)
  if (checkpoint === null) return null
  const isPrefix = checkpoint.size <= row.size && rootOf(frontierAt(checkpoint.size, read)).equals(checkpoint.root)
  return isPrefix ? null : changed(`it does not begin with its checkpoint of ${checkpoint.size} entries`)
}

function changed(why: string): TreeFault {
  return { why, isMendable: false }
}
