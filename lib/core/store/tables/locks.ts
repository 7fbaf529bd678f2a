/* Locks and maintenance: the two kinds of rows of the table `locks`. */
import { type Lock, type LockKind, lockKinds, type MaintenanceRow } from '../../../model/lock.js'
import type { Reader, Transaction } from '../database.js'
import { choice, type Column, nullable, rowReader, text } from './table.js'

const readLock = rowReader<Lock>('locks', {
  projectId: nullable(text),
  kind: choice(lockKinds),
  owner: text,
  reason: text,
  createdAt: text,
  expiresAt: text
})

/** Returns the locks that have not expired at `now` (ISO text): first those of the server, then the oldest. */
export function listLocks(db: Reader, now: string): Lock[] {
  const sql = `SELECT * FROM locks WHERE kind = 'lock' AND expiresAt > ?
    ORDER BY projectId IS NOT NULL, createdAt, projectId`
  return db.all(sql, now).map(readLock)
}

/** Returns the locks that refuse deployments of a project at `now`: first those of the server. */
export function locksOn(db: Reader, projectId: string, now: string): Lock[] {
  const sql = `SELECT * FROM locks WHERE (projectId = ? OR projectId IS NULL) AND kind = 'lock' AND expiresAt > ?
    ORDER BY projectId IS NOT NULL, createdAt`
  return db.all(sql, projectId, now).map(readLock)
}

/** Returns a lock, even if it has expired. A null `projectId` means the server. */
export function findLock(db: Reader, { projectId, kind }: { projectId: string | null; kind: LockKind }) {
  const row = db.get('SELECT * FROM locks WHERE projectId IS ? AND kind = ?', projectId, kind)
  return row === undefined ? undefined : readLock(row)
}

/** Adds a lock. The caller has removed any other of the same kind. */
export function insertLock(tx: Transaction, { projectId, kind, owner, reason, createdAt, expiresAt }: Lock): void {
  const sql = 'INSERT INTO locks (projectId, kind, owner, reason, createdAt, expiresAt) VALUES (?, ?, ?, ?, ?, ?)'
  tx.run(sql, projectId, kind, owner, reason, createdAt, expiresAt)
}

/** Removes a lock. The locks of a project are removed together with the project. */
export function deleteLock(tx: Transaction, { projectId, kind }: Pick<Lock, 'projectId' | 'kind'>): void {
  tx.run('DELETE FROM locks WHERE projectId IS ? AND kind = ?', projectId, kind)
}

/** Removes the locks that have expired at `now`. */
export function deleteExpiredLocks(tx: Transaction, now: string): void {
  tx.run('DELETE FROM locks WHERE expiresAt <= ?', now)
}

/* The maintenance of projects: the rows of the table `locks` with the kind `maintenance`. They never expire. */

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
