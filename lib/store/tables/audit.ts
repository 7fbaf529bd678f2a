import { invalid } from '../../base/refusal.js'
import type { AuditEntry } from '../../model/audit.js'
import type { Reader, Transaction } from '../database.js'
import { flag, nullable, number, text, valueReader } from './columns.js'
import { equalities, where } from './conditions.js'
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
  failures: nullable(number)
})
const positionOf = valueReader('audit.position', number)

/** Conditions on audit entries. */
export interface AuditFilter {
  action?: string
  projectId?: string
  tokenId?: string
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
  { action, projectId, tokenId, seenBy, limit, before }: AuditFilter
): AuditEntry[] {
  const { conditions, values } = equalities({ action, projectId, tokenId })
  if (seenBy !== undefined) {
    conditions.push('(tokenId = ? OR projectId IN (SELECT value FROM json_each(?)))')
    values.push(seenBy.tokenId, JSON.stringify(seenBy.projects))
  }
  if (before !== undefined) {
    const row = db.get('SELECT position FROM audit WHERE id = ?', before)
    if (row === undefined) throw invalid('before', `Cannot list entries before "${before}": no such entry`)
    conditions.push('position < ?')
    values.push(positionOf(row))
  }
  const sql = `SELECT * FROM audit ${where(conditions)} ORDER BY position DESC LIMIT ?`
  return db.all(sql, ...values, limit).map(entries.read)
}

/** Removes the entries from before an instant (ISO); returns their number. */
export function removeAuditBefore(tx: Transaction, at: string): number {
  return tx.run('DELETE FROM audit WHERE at < ?', at)
}

/** Removes all but the newest `keep` summaries of failed attempts; returns the number of removed entries. */
export function trimFailures(tx: Transaction, keep: number): number {
  return tx.run(
    `DELETE FROM audit WHERE failures IS NOT NULL AND position <=
      (SELECT position FROM audit WHERE failures IS NOT NULL ORDER BY position DESC LIMIT 1 OFFSET ?)`,
    keep
  )
}
