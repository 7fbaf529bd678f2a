import type { Reader, Transaction } from '../database.js'
import { bytes, flag, nullable, number, rowReader, text, valueReader } from './columns.js'

/** The row of the tree of the audit log. */
export interface AuditTreeRow {
  /** The number of leaves. */
  size: number
  /** The roots of the perfect subtrees, one after the other, the largest first. */
  frontier: Uint8Array
  /** The number of entries from before the tree. */
  baseline: number
  /** Whether entries from before the tree are not leaves yet. */
  isPending: boolean
  /** The name of the tree in its checkpoints; null: there is no checkpoint yet. */
  origin: string | null
  /** When the tree was found damaged; null: it is well. */
  brokenSince: string | null
  brokenWhy: string | null
}

/** A signed checkpoint of the tree. */
export interface StoredCheckpoint {
  size: number
  at: string
  /** The signed note. */
  note: string
}

const readTreeRow = rowReader<AuditTreeRow>('auditTree', {
  size: number,
  frontier: bytes,
  baseline: number,
  isPending: flag,
  origin: nullable(text),
  brokenSince: nullable(text),
  brokenWhy: nullable(text)
})
const readLeaf = rowReader<{ seq: number; hash: Uint8Array }>('auditLeaves', { seq: number, hash: bytes })
const readBlock = rowReader<{ number: number; root: Uint8Array }>('auditBlocks', { number, root: bytes })
const readCheckpointRow = rowReader<StoredCheckpoint>('auditCheckpoints', { size: number, at: text, note: text })
const maxOf = valueReader('auditLeaves.seq', nullable(number))

/** Returns the row of the tree. */
export function readAuditTree(db: Reader): AuditTreeRow {
  const row = db.get('SELECT * FROM auditTree')
  if (row === undefined) throw new Error('Cannot read the database: the row of "auditTree" is missing')
  return readTreeRow(row)
}

/** Writes the size and the frontier of the tree. */
export function writeAuditFrontier(tx: Transaction, { size, frontier }: Pick<AuditTreeRow, 'size' | 'frontier'>): void {
  tx.run('UPDATE auditTree SET size = ?, frontier = ?', size, frontier)
}

/** Records that the entries from before the tree are leaves. */
export function endAuditBaseline(tx: Transaction): void {
  tx.run('UPDATE auditTree SET isPending = 0')
}

/** Names the tree. */
export function nameAuditTree(tx: Transaction, origin: string): void {
  tx.run('UPDATE auditTree SET origin = ?', origin)
}

/** Records since when the tree is damaged, and why. Null: it is well. */
export function markAuditTree(tx: Transaction, fault: { since: string; why: string } | null): void {
  tx.run('UPDATE auditTree SET brokenSince = ?, brokenWhy = ?', fault?.since ?? null, fault?.why ?? null)
}

/** Adds the hash of a leaf. */
export function insertAuditLeaf(tx: Transaction, seq: number, hash: Uint8Array): void {
  tx.run('INSERT INTO auditLeaves (seq, hash) VALUES (?, ?)', seq, hash)
}

/** Returns the hashes of the leaves with these numbers that are still stored, in order. */
export function auditLeaves(db: Reader, from: number, to: number): Array<{ seq: number; hash: Buffer }> {
  const rows = db.all('SELECT seq, hash FROM auditLeaves WHERE seq BETWEEN ? AND ? ORDER BY seq', from, to)
  return rows.map(row => {
    const { seq, hash } = readLeaf(row)
    return { seq, hash: Buffer.from(hash) }
  })
}

/** Returns the number of the last leaf whose hash is stored; 0 if there is none. */
export function lastAuditLeaf(db: Reader): number {
  const row = db.get('SELECT max(seq) AS seq FROM auditLeaves')
  return row === undefined ? 0 : (maxOf(row) ?? 0)
}

/** Removes the hashes of the leaves up to a number, except of blocks of which an entry is still in the log. */
export function removeAuditLeaves(tx: Transaction, upTo: number, blockLeaves: number): number {
  return tx.run(
    `DELETE FROM auditLeaves WHERE seq <= ? AND (seq - 1) / ? NOT IN
      (SELECT (audit.seq - 1) / ? FROM audit WHERE audit.seq IS NOT NULL AND audit.seq <= ?)`,
    upTo,
    blockLeaves,
    blockLeaves,
    upTo
  )
}

/** Adds the root of a block. Replaces one that is already there. */
export function insertAuditBlock(tx: Transaction, block: number, root: Uint8Array): void {
  tx.run('INSERT OR REPLACE INTO auditBlocks (number, root) VALUES (?, ?)', block, root)
}

/** Returns the roots of the blocks with these numbers that are stored, by number. */
export function auditBlocks(db: Reader, from: number, to: number): Map<number, Buffer> {
  const rows = db.all('SELECT number, root FROM auditBlocks WHERE number BETWEEN ? AND ? ORDER BY number', from, to)
  return new Map(
    rows.map(row => {
      const { number, root } = readBlock(row)
      return [number, Buffer.from(root)]
    })
  )
}

/** Adds a checkpoint, or replaces the one of the same size, and removes all but the newest `keep`. */
export function insertAuditCheckpoint(tx: Transaction, { size, at, note }: StoredCheckpoint, keep: number): void {
  tx.run('INSERT OR REPLACE INTO auditCheckpoints (size, at, note) VALUES (?, ?, ?)', size, at, note)
  tx.run(
    'DELETE FROM auditCheckpoints WHERE size <= (SELECT size FROM auditCheckpoints ORDER BY size DESC LIMIT 1 OFFSET ?)',
    keep
  )
}

/** Returns the checkpoint of the largest tree; null if there is none. */
export function newestAuditCheckpoint(db: Reader): StoredCheckpoint | null {
  const row = db.get('SELECT * FROM auditCheckpoints ORDER BY size DESC LIMIT 1')
  return row === undefined ? null : readCheckpointRow(row)
}
