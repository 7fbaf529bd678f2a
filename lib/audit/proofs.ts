import { Refusal, invalid, notFound } from '../base/refusal.js'
import type { AuditCheckpoint, ConsistencyProof, InclusionProof } from '../model/audit.js'
import type { Store } from '../store/database.js'
import { findAudit, readAuditTree } from '../store/tables/audit.js'
import { entryText } from './entry-text.js'
import { exportAudit } from './export.js'
import type { Keeper } from './keeper.js'
import { readNodes } from './leaves.js'
import { consistencyProof, hashLeaf, inclusionProof } from './tree.js'

/** Proves what the audit log contains. */
export interface Proofs {
  /** Returns a checkpoint of all entries. Refuses: 404 for an empty log, 503 `server_key`. */
  checkpoint(): Promise<AuditCheckpoint>
  /**
   * Proves that the tree of `to` entries begins with the tree of `from` entries. `to` is by default the size of the
   * tree. Refuses: 400 for sizes that the tree does not have, 409 `history_gone`.
   */
  consistency(from: number, to?: number): ConsistencyProof
  /**
   * Proves that an entry is in the tree of the checkpoint. Refuses: 404 for an unknown entry, 409 `not_sealed` for one
   * that can still change, 409 `history_gone`.
   */
  inclusion(id: string): Promise<InclusionProof>
  /**
   * Returns the export of the entries from the number `from` up to `to`, by default of all. Refuses: 404 for an empty
   * log, 400 for a range without entries, 503 `server_key`; while it is read, 409 `changed_meanwhile`.
   */
  export(range: { from?: number | undefined; to?: number | undefined }): Promise<AsyncGenerator<string>>
}

/** Creates the proofs of a store's audit log. */
export function createProofs({ store, keeper }: { store: Store; keeper: Pick<Keeper, 'current'> }): Proofs {
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
    checkpoint,
    consistency(from, to = readAuditTree(store).size) {
      const { size } = readAuditTree(store)
      if (to > size) throw invalid('to', `"to" is ${to}, but the audit log has ${size} entries`)
      if (from > to) throw invalid('from', `"from" is ${from}: expected a whole number up to ${to}`)
      return { from, to, proof: consistencyProof(from, to, read).map(hash => hash.toString('base64')) }
    },
    async inclusion(id) {
      const { verifierKey: key, size, at, note } = await current()
      const entry = findAudit(store, id)
      if (entry === undefined) throw notFound('Audit entry', id)
      const { seq } = entry
      if (seq === null || seq > size) throw notSealed(id)
      const leaf = hashLeaf(entryText({ ...entry, seq })).toString('base64')
      const proof = inclusionProof(seq - 1, size, read).map(hash => hash.toString('base64'))
      return { id, seq, leaf, proof, checkpoint: { size, at, note, key } }
    },
    async export({ from = 1, to = Number.MAX_SAFE_INTEGER }) {
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
