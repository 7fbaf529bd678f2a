import { invalid } from '../../base/refusal.js'
import type { AuditEntry } from '../../model/audit.js'
import type { Reader, Transaction, Value } from '../database.js'
import { columnsOf } from './columns.js'

const columns = columnsOf<AuditEntry>('audit', {
  id: 'plain',
  at: 'plain',
  action: 'plain',
  actor: 'plain',
  ip: 'plain',
  claimedIp: 'plain',
  projectId: 'plain',
  target: 'plain',
  detail: 'plain',
  ok: 'flag',
  failures: 'plain'
})

export interface AuditFilter {
  action?: string
  projectId?: string
  limit: number
  /** An entry's id: those older than it. */
  before?: string
}

/** Adds an entry. */
export function insertAudit(tx: Transaction, entry: AuditEntry): void {
  columns.insert(tx, entry)
}

/** A page of entries, newest first. Refuses a `before` that is not there (it may have been trimmed). */
export function listAudit(db: Reader, { action, projectId, limit, before }: AuditFilter): AuditEntry[] {
  const given = Object.entries({ action, projectId }).filter(([, value]) => value !== undefined)
  const conditions = given.map(([field]) => `${field} = ?`)
  const values: Value[] = given.map(([, value]) => value as string)
  if (before !== undefined) {
    const at = db.get<{ position: number }>('SELECT position FROM audit WHERE id = ?', before)
    if (at === undefined) throw invalid('before', `cannot list what came before "${before}": there is no such entry`)
    conditions.push('position < ?')
    values.push(at.position)
  }
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  return db
    .all<object>(`SELECT * FROM audit ${where} ORDER BY position DESC LIMIT ?`, ...values, limit)
    .map(row => columns.decode<AuditEntry>(row))
}

/** Changes the fields of an entry that are present; false if it is not there any more. */
export function updateAudit(tx: Transaction, id: string, patch: Partial<AuditEntry>): boolean {
  return columns.update(tx, id, patch) > 0
}

/** Removes the entries from before an instant (ISO); gives how many went. */
export function removeAuditBefore(tx: Transaction, at: string): number {
  return tx.run('DELETE FROM audit WHERE at < ?', at)
}

/** Removes all but the newest `keep` summaries of failed attempts; gives how many went. */
export function trimFailures(tx: Transaction, keep: number): number {
  return tx.run(
    `DELETE FROM audit WHERE failures IS NOT NULL AND position <=
      (SELECT position FROM audit WHERE failures IS NOT NULL ORDER BY position DESC LIMIT 1 OFFSET ?)`,
    keep
  )
}
