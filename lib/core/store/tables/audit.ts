import { invalid } from '../../../base/errors.js'
import type { AuditEntry } from '../../../model/audit.js'
import type { Reader, Transaction } from '../database.js'
import {
  bytes,
  type Conditions,
  equalities,
  flag,
  nullable,
  number,
  rowReader,
  tableOf,
  text,
  valueReader,
  where
} from './table.js'

const entries = tableOf<AuditEntry>('audit', {
  id: text,
  at: text,
  action: text,
  actor: text,
  tokenId: nullable(text),
  tokenName: nullable(text),
  role: nullable(text),
  sessionId: nullable(text),
  ip: nullable(text),
  claimedIp: nullable(text),
  projectId: nullable(text),
  target: nullable(text),
  detail: nullable(text),
  ok: flag,
  failures: nullable(number),
  seq: nullable(number)
})
const positionOf = valueReader('audit.position', number)
const targetOf = valueReader('audit.target', text)
const seqOf = valueReader('audit.seq', number)
const firstOf = valueReader('audit.seq', nullable(number))
const latestOf = valueReader('auditCheckpoints.at', nullable(text))

export interface AuditFilter {
  action?: string | undefined
  projectId?: string | undefined
  tokenId?: string | undefined
  /** The name that the token had. */
  tokenName?: string | undefined
  /** The callers whose entries are listed; undefined: all. */
  seenBy?: AuditReader | undefined
  /** Only entries from this time on, as ISO text. */
  since?: string | undefined
  /** Only entries before this time, as ISO text. */
  until?: string | undefined
  limit: number
  /** The id of an entry: only older ones are listed. */
  before?: string | undefined
}

/** A named token that reads the log: it sees its own entries, and those of these projects. */
export interface AuditReader {
  tokenId: string
  projects: readonly string[]
}

export const insertAudit = entries.insert

/** Writes the fields that are present; returns false if the entry does not exist (it may have been trimmed). */
export const updateAudit = entries.update

/** Returns a page of entries, newest first. Refuses an unknown `before` (the entry may have been trimmed). */
export function listAudit(
  db: Reader,
  { action, projectId, tokenId, tokenName, seenBy, since, until, limit, before }: AuditFilter
): AuditEntry[] {
  const seen = visibleTo(seenBy)
  const wanted = equalities({ action, projectId, tokenId, tokenName })
  const conditions = [...wanted.conditions, ...seen.conditions]
  const values = [...wanted.values, ...seen.values]
  for (const [condition, value] of [
    ['at >= ?', since],
    ['at < ?', until]
  ] as const) {
    if (value === undefined) continue
    conditions.push(condition)
    values.push(value)
  }
  if (before !== undefined) {
    // An entry that the reader may not see is as unknown as one that does not exist.
    const sql = `SELECT position FROM audit ${where(['id = ?', ...seen.conditions])}`
    const row = db.get(sql, before, ...seen.values)
    if (row === undefined) throw invalid('before', `Cannot list entries before "${before}": no such entry`)
    conditions.push('position < ?')
    values.push(positionOf(row))
  }
  const sql = `SELECT * FROM audit ${where(conditions)} ORDER BY position DESC LIMIT ?`
  return db.all(sql, ...values, limit).map(entries.read)
}

function visibleTo(reader: AuditReader | undefined): Conditions {
  if (reader === undefined) return { conditions: [], values: [] }
  return {
    conditions: ['(tokenId = ? OR projectId IN (SELECT value FROM json_each(?)))'],
    values: [reader.tokenId, JSON.stringify(reader.projects)]
  }
}

/** Returns the entries that are not leaves of the tree yet, up to a position, oldest first. */
export function unsealedAudit(db: Reader, upTo: number, limit: number): AuditEntry[] {
  const sql = 'SELECT * FROM audit WHERE seq IS NULL AND position <= ? ORDER BY position LIMIT ?'
  return db.all(sql, upTo, limit).map(entries.read)
}

/** Returns the position of the newest entry; 0 if the log is empty. */
export function newestAuditPosition(db: Reader): number {
  const row = db.get('SELECT position FROM audit ORDER BY position DESC LIMIT 1')
  return row === undefined ? 0 : positionOf(row)
}

export const findAudit = entries.find

/** Returns the entries that are leaves with these numbers, in the order of the tree. */
export function sealedAudit(db: Reader, from: number, to: number): AuditEntry[] {
  return db.all('SELECT * FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq', from, to).map(entries.read)
}

/** Returns the targets of the entries of an action. */
export function auditTargets(db: Reader, action: string): string[] {
  return db.all('SELECT target FROM audit WHERE action = ? AND target IS NOT NULL', action).map(targetOf)
}

/** How an entry says of which backup the server is: `restoreDetail` writes it, `latestRestore` reads it. */
const ofBackup = /^a backup of (\S+?)(?:;|$)/

/** Returns the detail of the entry of a restore, and what else there is to say. */
export function restoreDetail(backupAt: string, more: string): string {
  return `a backup of ${backupAt}${more === '' ? '' : `; ${more}`}`
}

/** Returns when the server last started from a restored backup, and of when that is; null: the log does not say. */
export function latestRestore(db: Reader): { at: string; backupAt: string } | null {
  const [entry] = listAudit(db, { action: 'backup.restore', limit: 1 })
  const backupAt = ofBackup.exec(entry?.detail ?? '')?.[1]
  return entry === undefined || backupAt === undefined ? null : { at: entry.at, backupAt }
}

/** Returns whether there is an entry of an action among the leaves after a number. */
export function hasAuditAfter(db: Reader, action: string, seq: number): boolean {
  return db.get('SELECT 1 FROM audit WHERE action = ? AND seq > ?', action, seq) !== undefined
}

/** Returns whether there is an entry of an action since an instant (ISO). */
export function hasAuditSince(db: Reader, action: string, at: string): boolean {
  return db.get('SELECT 1 FROM audit WHERE action = ? AND at >= ?', action, at) !== undefined
}

/**
 * Removes the leaves from before an instant (ISO), up to the first younger one. Returns the number of the last leaf
 * that may be missing now, and how many entries were removed.
 */
export function removeAuditBefore(tx: Transaction, at: string): { upTo: number; removed: number } {
  const row = tx.get('SELECT min(seq) AS first FROM audit WHERE seq IS NOT NULL AND at >= ?', at)
  const first = row === undefined ? null : firstOf(row)
  if (first === null) return { upTo: 0, removed: 0 }
  return { upTo: first - 1, removed: tx.run('DELETE FROM audit WHERE seq < ?', first) }
}

/** Removes all but the newest `keep` summaries of failed attempts; returns the leaves that they were, in order. */
export function trimFailures(tx: Transaction, keep: number): number[] {
  const condition = `failures IS NOT NULL AND position <=
      (SELECT position FROM audit WHERE failures IS NOT NULL ORDER BY position DESC LIMIT 1 OFFSET ?)`
  const removed = tx.all(`SELECT seq FROM audit WHERE ${condition} AND seq IS NOT NULL ORDER BY seq`, keep)
  tx.run(`DELETE FROM audit WHERE ${condition}`, keep)
  return removed.map(seqOf)
}

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

export function nameAuditTree(tx: Transaction, origin: string): void {
  tx.run('UPDATE auditTree SET origin = ?', origin)
}

/** Records since when the tree is damaged, and why. Null: it is well. */
export function markAuditTree(tx: Transaction, fault: { since: string; why: string } | null): void {
  tx.run('UPDATE auditTree SET brokenSince = ?, brokenWhy = ?', fault?.since ?? null, fault?.why ?? null)
}

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

/** Adds a checkpoint, or replaces the one of the same size, and removes all but the newest `keep` and the latest. */
export function insertAuditCheckpoint(tx: Transaction, { size, at, note }: StoredCheckpoint, keep: number): void {
  tx.run('INSERT OR REPLACE INTO auditCheckpoints (size, at, note) VALUES (?, ?, ?)', size, at, note)
  tx.run(
    `DELETE FROM auditCheckpoints WHERE size <> (SELECT size FROM auditCheckpoints ORDER BY at DESC, size DESC LIMIT 1)
      AND size <= (SELECT size FROM auditCheckpoints ORDER BY size DESC LIMIT 1 OFFSET ?)`,
    keep
  )
}

/** Returns the checkpoint of the largest tree; null if there is none. */
export function newestAuditCheckpoint(db: Reader): StoredCheckpoint | null {
  const row = db.get('SELECT * FROM auditCheckpoints ORDER BY size DESC LIMIT 1')
  return row === undefined ? null : readCheckpointRow(row)
}

/** Returns the latest time of a checkpoint; null if there is none. Clocks are set back: the largest tree may have another. */
export function latestAuditCheckpoint(db: Reader): string | null {
  const row = db.get('SELECT max(at) FROM auditCheckpoints')
  return row === undefined ? null : latestOf(row)
}
