/* The maintenance of projects: the rows of the table `locks` with the kind `maintenance`. They never expire. */
import type { MaintenanceRow } from '../../model/maintenance.js'
import type { Reader, Transaction } from '../database.js'
import { rowReader, text, type Column } from './columns.js'

/** A reason, which the table requires: no reason is stored as an empty text. */
const reason: Column<string | null> = {
  wanted: 'text',
  read: value => (typeof value === 'string' ? value || null : undefined),
  write: field => field ?? ''
}

const readRow = rowReader<MaintenanceRow>('locks', {
  projectId: text,
  by: text,
  reason,
  since: text,
  path: text,
  sha256: text
})
const columns = 'projectId, owner AS "by", reason, createdAt AS since, path, sha256'

/** The end of what does not end: later than any time that svc compares with it. */
const never = '9999-12-31T23:59:59.999Z'

/** Returns the maintenance of a project; undefined if it is off. */
export function findMaintenance(db: Reader, projectId: string): MaintenanceRow | undefined {
  const row = db.get(`SELECT ${columns} FROM locks WHERE projectId = ? AND kind = 'maintenance'`, projectId)
  return row === undefined ? undefined : readRow(row)
}

/** Returns the maintenance of all projects, the oldest first. */
export function listMaintenance(db: Reader): MaintenanceRow[] {
  const sql = `SELECT ${columns} FROM locks WHERE kind = 'maintenance' ORDER BY createdAt, projectId`
  return db.all(sql).map(readRow)
}

/** Adds the maintenance of a project. The caller has made sure that there is none. */
export function insertMaintenance(tx: Transaction, row: MaintenanceRow): void {
  const { projectId, by, since, path, sha256 } = row
  const sql = `INSERT INTO locks (projectId, kind, owner, reason, createdAt, expiresAt, path, sha256)
    VALUES (?, 'maintenance', ?, ?, ?, ?, ?, ?)`
  tx.run(sql, projectId, by, reason.write(row.reason), since, never, path, sha256)
}

/** Removes the maintenance of a project. It is also removed together with the project. */
export function deleteMaintenance(tx: Transaction, projectId: string): void {
  tx.run(`DELETE FROM locks WHERE projectId = ? AND kind = 'maintenance'`, projectId)
}
