/*
 * The history of the hub's database, which orders name. A restored database does not know what happened after its backup, so
 * another history begins with it, and nodes obey its orders, whatever numbers they remember. It begins also if a node knows a
 * later rollout than this database: then the database was set back in another way, such as by a snapshot of the machine.
 */
import { elapsedOf, type Clock } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { systemActor, type AuditEvent } from '../../model/audit.js'
import type { Transaction } from '../../store/database.js'
import { beginEpoch, currentEpoch } from '../../store/tables/cluster.js'

/** The history of the hub's database. */
export type History = ReturnType<typeof createHistory>

/** A node that was taken over could let histories begin without end. */
const onceInMs = 24 * 60 * 60_000

/** Creates the history. */
export function createHistory({
  clock,
  ids,
  audit
}: {
  clock: Clock
  ids: Pick<Ids, 'token'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
}) {
  /** When nodes let a history begin. */
  const asked = new Map<string, number>()

  function begin(tx: Transaction, why: string): void {
    beginEpoch(tx, ids.token())
    audit.within(tx, { action: 'fleet.history', actor: systemActor, target: null, detail: why })
  }

  return {
    begin,
    /** Lets the first history begin. */
    ensure(tx: Transaction): void {
      if (currentEpoch(tx) === '') beginEpoch(tx, ids.token())
    },
    /** Begins another history because of a node, at most once a day for each. Returns whether it did. */
    beginFor(tx: Transaction, nodeId: string, why: string): boolean {
      const nowMs = elapsedOf(clock)
      const last = asked.get(nodeId)
      if (last !== undefined && nowMs - last < onceInMs) return false
      asked.set(nodeId, nowMs)
      begin(tx, why)
      return true
    }
  }
}
