import type { Enrollment } from '../../model/node.js'
import type { Reader, Transaction } from '../database.js'
import { nullable, number, text, valueReader } from './columns.js'
import { labels } from './nodes.js'
import { tableOf } from './table.js'

/** An enrollment as it is stored. */
export interface StoredEnrollment extends Enrollment {
  /** Identifies the secret, which is not stored. */
  digest: string
  /** The node that has used it; null: it is unused. */
  nodeId: string | null
}

const enrollments = tableOf<StoredEnrollment>('enrollments', {
  id: text,
  digest: text,
  name: nullable(text),
  labels,
  createdAt: text,
  createdBy: text,
  expiresAt: text,
  nodeId: nullable(text)
})
const readCount = valueReader('count of enrollments', number)

/** Adds an enrollment. */
export const insertEnrollment = enrollments.insert

/** Removes an enrollment; returns false if there is none. */
export const deleteEnrollment = enrollments.delete

/** Returns one enrollment by its id. */
export const findEnrollment = enrollments.find

/** Returns the enrollment of a secret. */
export function findEnrollmentByDigest(db: Reader, digest: string): StoredEnrollment | undefined {
  return db.all('SELECT * FROM enrollments WHERE digest = ?', digest).map(enrollments.read)[0]
}

/** Notes the node that has used an enrollment. */
export function useEnrollment(tx: Transaction, id: string, nodeId: string): void {
  tx.run('UPDATE enrollments SET nodeId = ? WHERE id = ?', nodeId, id)
}

/** Returns the unused enrollments that have not expired at `now` (ISO text), the oldest first. */
export function listEnrollments(db: Reader, now: string): StoredEnrollment[] {
  return db
    .all('SELECT * FROM enrollments WHERE nodeId IS NULL AND expiresAt > ? ORDER BY createdAt, id', now)
    .map(enrollments.read)
}

/** Returns the number of unused enrollments. */
export function countEnrollments(db: Reader): number {
  return db.all('SELECT count(*) FROM enrollments WHERE nodeId IS NULL').map(readCount)[0] ?? 0
}

/** Removes the enrollments that expired before an instant (ISO text). */
export function removeExpiredEnrollments(tx: Transaction, now: string): number {
  return tx.run('DELETE FROM enrollments WHERE expiresAt <= ?', now)
}
