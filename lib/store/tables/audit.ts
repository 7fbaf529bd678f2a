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
  ok: 'flag'
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

/** Removes all but the newest `keep` entries; gives how many went. */
export function trimAudit(tx: Transaction, keep: number): number {
  return tx.run(
    'DELETE FROM audit WHERE position <= (SELECT position FROM audit ORDER BY position DESC LIMIT 1 OFFSET ?)',
    keep
  )
}
