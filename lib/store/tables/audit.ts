import { invalid } from '../../base/refusal.js'
import type { AuditEntry } from '../../model/audit.js'
import type { Reader, Transaction } from '../database.js'
import { flag, nullable, number, text, valueReader } from './columns.js'
import { equalities, where, type Conditions } from './conditions.js'
import { tableOf } from './table.js'

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

/** Conditions on audit entries. */
export interface AuditFilter {
  action?: string
  projectId?: string
  tokenId?: string
  /** The name that the token had. */
  tokenName?: string
  /** The callers whose entries are listed; undefined: all. */
  seenBy?: AuditReader
  limit: number
  /** The id of an entry: only older ones are listed. */
  before?: string
}

/** A named token that reads the log: it sees its own entries, and those of these projects. */
export interface AuditReader {
  tokenId: string
  projects: readonly string[]
}

/** Adds an entry. */
export const insertAudit = entries.insert

/** Writes the fields that are present; returns false if the entry does not exist (it may have been trimmed). */
export const updateAudit = entries.update

/** Returns a page of entries, newest first. Refuses an unknown `before` (the entry may have been trimmed). */
export function listAudit(
  db: Reader,
  { action, projectId, tokenId, tokenName, seenBy, limit, before }: AuditFilter
): AuditEntry[] {
  const seen = visibleTo(seenBy)
  const wanted = equalities({ action, projectId, tokenId, tokenName })
  const conditions = [...wanted.conditions, ...seen.conditions]
  const values = [...wanted.values, ...seen.values]
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

/** Returns the entry with an id. */
export const findAudit = entries.find

/** Returns the entries that are leaves with these numbers, in the order of the tree. */
export function sealedAudit(db: Reader, from: number, to: number): AuditEntry[] {
  return db.all('SELECT * FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq', from, to).map(entries.read)
}

/** Returns the targets of the entries of an action. */
export function auditTargets(db: Reader, action: string): string[] {
  return db.all('SELECT target FROM audit WHERE action = ? AND target IS NOT NULL', action).map(targetOf)
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
