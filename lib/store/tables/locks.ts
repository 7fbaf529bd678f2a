/* Locks: the rows of the table `locks` with the kind `lock`. maintenance.ts has the others. */
import { lockKinds, type Lock, type LockKind } from '../../model/lock.js'
import type { Reader, Transaction } from '../database.js'
import { choice, nullable, rowReader, text } from './columns.js'

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
