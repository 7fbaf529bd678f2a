/*
 * What a client sent for a deployment that waits to be rolled out. After a kill, this hub or another one queues the deployment
 * again, with the same scripts, variables and policy.
 */
import type { RolloutPolicy } from '../../model/rollout.js'
import type { Reader, Transaction } from '../database.js'
import { isObject, json, nullable, rowReader, text } from './columns.js'

/** The wishes of a client for a rollout. */
export interface QueuedRelease {
  /** Scripts and variables, encrypted; null: none. */
  sealed: string | null
  /** What the push sets instead of the policy of rollouts. */
  rollout: Partial<RolloutPolicy>
  /** The role of the client; null: of an earlier version. */
  role: string | null
}

const read = rowReader<QueuedRelease>('queuedReleases', {
  sealed: nullable(text),
  rollout: json('a part of a rollout policy', (value): value is Partial<RolloutPolicy> => isObject(value)),
  role: nullable(text)
})

/** Keeps the wishes for a deployment that is queued, and removes those of deployments that have begun. */
export function putQueuedRelease(tx: Transaction, deployId: string, { sealed, rollout, role }: QueuedRelease): void {
  tx.run(`DELETE FROM queuedReleases WHERE deployId NOT IN (SELECT id FROM deployments WHERE status = 'queued')`)
  const sql = 'INSERT INTO queuedReleases (deployId, sealed, rollout, role) VALUES (?, ?, ?, ?)'
  tx.run(sql, deployId, sealed, JSON.stringify(rollout), role)
}

/** Returns the wishes for a deployment; undefined: it was not to be rolled out when it was queued. */
export function findQueuedRelease(db: Reader, deployId: string): QueuedRelease | undefined {
  return db.all('SELECT sealed, rollout, role FROM queuedReleases WHERE deployId = ?', deployId).map(read)[0]
}
