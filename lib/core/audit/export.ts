import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { invalid, notFound, Refusal } from '../../base/errors.js'
import type { AuditCheckpoint, ConsistencyProof, InclusionProof } from '../../model/audit.js'
import type { Reader, Store } from '../store/database.js'
import {
  auditBlocks,
  auditLeaves,
  findAudit,
  hasAuditAfter,
  readAuditTree,
  sealedAudit
} from '../store/tables/audit.js'
import { readNodes } from './audit.js'
import {
  blockLeaves,
  consistencyProof,
  entryLine,
  entryText,
  exportExtension,
  exportVersion,
  hashLeaf,
  inclusionProof,
  otherLine,
  type SealedEntry,
  trimmedAction
} from './tree.js'
import type { Keeper, SignedCheckpoint } from './keeper.js'
import { type Checkpoint, readCheckpoint, readNote, type SignedNote, signNote, writeCheckpoint } from './signed-note.js'

/** The entries to export, by number, both ends included. */
export interface ExportRange {
  from: number
  to: number
}

/**
 * Returns the export of a range, in pieces of one block of entries, between which other work is done. Throws a Refusal
 * `changed_meanwhile` if entries were removed while it was read.
 */
export async function* exportAudit(
  db: Reader,
  checkpoint: SignedCheckpoint,
  range: ExportRange
): AsyncGenerator<string> {
  const { size, verifierKey } = checkpoint
  const digest = createHash('sha256')
  const hashed = (text: string): string => {
    digest.update(text)
    return text
  }
  yield hashed(otherLine({ svcAudit: exportVersion, key: verifierKey }))
  for (let block = 0; block * blockLeaves < size; block++) {
    yield hashed(linesOfBlock(db, { block, size, range }))
    await nextTurn()
  }
  if (hasAuditAfter(db, trimmedAction, size)) throw changedMeanwhile()
  yield otherLine({ checkpoint: signExport(checkpoint, digest.digest('base64')) })
}

/** Signs the checkpoint again, together with the digest of the lines before it. */
function signExport({ note, signers }: SignedCheckpoint, digest: string): string {
  const { text } = readNote(note) as SignedNote
  const checkpoint = readCheckpoint(text) as Checkpoint
  const extensions = [...checkpoint.extensions, exportExtension(digest)]
  return signNote(writeCheckpoint({ ...checkpoint, extensions }), signers)
}

function linesOfBlock(db: Reader, given: { block: number; size: number; range: ExportRange }): string {
  const { block, size, range } = given
  const [from, to] = [block * blockLeaves + 1, Math.min((block + 1) * blockLeaves, size)]
  const isOmitted = to < range.from || from > range.to
  const isComplete = to === (block + 1) * blockLeaves
  const root = isComplete ? auditBlocks(db, block, block).get(block)?.toString('base64') : undefined
  if (isOmitted && root !== undefined) return otherLine({ omittedBlock: block + 1, root })
  const leaves = auditLeaves(db, from, to)
  if (leaves.length === 0 && root !== undefined) return otherLine({ removedBlock: block + 1, root })
  const wanted = sealedAudit(db, Math.max(from, range.from), Math.min(to, range.to))
  const entries = new Map(wanted.map(entry => [entry.seq, entry as SealedEntry]))
  return leaves.map(({ seq, hash }) => lineOfLeaf(hash.toString('base64'), seq, { range, entries })).join('')
}

function lineOfLeaf(
  leaf: string,
  seq: number,
  { range, entries }: { range: ExportRange; entries: ReadonlyMap<number | null, SealedEntry> }
): string {
  const entry = entries.get(seq)
  if (entry !== undefined) return entryLine(leaf, entryText(entry))
  return otherLine(seq < range.from || seq > range.to ? { leaf, omitted: seq } : { leaf, removed: seq })
}

function changedMeanwhile(): Refusal {
  return new Refusal(
    'conflict',
    'changed_meanwhile',
    'The export was not completed: entries were removed from the audit log while it was read. Try again'
  )
}

/** Proves what the audit log contains. */
export type Proofs = ReturnType<typeof createProofs>

/** Creates the proofs of a store's audit log. */
export function createProofs({ store, keeper }: { store: Store; keeper: Pick<Keeper, 'current'> }) {
  const read = readNodes(store)

  async function current() {
    const checkpoint = await keeper.current()
    if (checkpoint !== null) return checkpoint
    const sentence = 'No checkpoint yet: the audit log is empty, or its entries are still being added to its tree'
    throw new Refusal('not_found', 'not_found', sentence)
  }

  async function checkpoint(): Promise<AuditCheckpoint> {
    const { size, at, note, verifierKey } = await current()
    return { size, at, note, key: verifierKey }
  }

  return {
    /** Returns a checkpoint of all entries. Refuses: 404 for an empty log, 503 `server_key`. */
    checkpoint,

    /**
     * Proves that the tree of `to` entries begins with the tree of `from` entries. `to` is by default the size of the
     * tree. Refuses: 400 for sizes that the tree does not have, 409 `history_gone`.
     */
    consistency(from: number, to: number = readAuditTree(store).size): ConsistencyProof {
      const { size } = readAuditTree(store)
      if (to > size) throw invalid('to', `"to" is ${to}, but the audit log has ${size} entries`)
      if (from > to) throw invalid('from', `"from" is ${from}: expected a whole number up to ${to}`)
      return { from, to, proof: consistencyProof(from, to, read).map(hash => hash.toString('base64')) }
    },

    /**
     * Proves that an entry is in the tree of the checkpoint. Refuses: 404 for an unknown entry, 409 `not_sealed` for one
     * that can still change, 409 `history_gone`.
     */
    async inclusion(id: string): Promise<InclusionProof> {
      const { verifierKey: key, size, at, note } = await current()
      const entry = findAudit(store, id)
      if (entry === undefined) throw notFound('Audit entry', id)
      const { seq } = entry
      if (seq === null || seq > size) throw notSealed(id)
      const leaf = hashLeaf(entryText({ ...entry, seq })).toString('base64')
      const proof = inclusionProof(seq - 1, size, read).map(hash => hash.toString('base64'))
      return { id, seq, leaf, proof, checkpoint: { size, at, note, key } }
    },

    /**
     * Returns the export of the entries from the number `from` up to `to`, by default of all. Refuses: 404 for an empty
     * log, 400 for a range without entries, 503 `server_key`; while it is read, 409 `changed_meanwhile`.
     */
    async export({
      from = 1,
      to = Number.MAX_SAFE_INTEGER
    }: {
      from?: number | undefined
      to?: number | undefined
    }): Promise<AsyncGenerator<string>> {
      const found = await current()
      const last = Math.min(to, found.size)
      if (from > last) throw invalid('from', `"from" is ${from}: expected a whole number up to ${last}`)
      return exportAudit(store, found, { from, to: last })
    }
  }
}

function notSealed(id: string): Refusal {
  const sentence = `Audit entry "${id}" can still change: try again in a minute`
  return new Refusal('conflict', 'not_sealed', sentence)
}
