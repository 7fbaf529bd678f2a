import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import type { AuditEntry, AuditEvent } from '../model/audit.js'
import type { Store, Transaction } from '../store/database.js'
import { insertAudit, trimAudit } from '../store/tables/audit.js'

export interface Audit {
  /** Adds the entry to a transaction: it is kept exactly when the change it tells of is. */
  within(tx: Transaction, event: AuditEvent): void
  /** An entry of its own. Never rejects: what cannot be recorded is reported to `onError`. */
  record(event: AuditEvent): Promise<void>
}

/** Some years of a busy server, and about 30 MB of memory. */
const defaultKeep = 100_000
/** Entries between two trimmings: so many more than `keep` there may be. */
const trimEvery = 500

export function createAudit(needs: {
  store: Pick<Store, 'write'>
  clock: Clock
  ids: Pick<Ids, 'id'>
  onError(error: unknown): void
  /** Entries kept; the oldest go. */
  keep?: number
}): Audit {
  const { store, clock, ids, onError, keep = defaultKeep } = needs
  let untilTrim = 0

  function within(tx: Transaction, event: AuditEvent): void {
    insertAudit(tx, entryOf(event, ids.id('aud_'), clock.now()))
    if (untilTrim-- > 0) return
    untilTrim = trimEvery
    trimAudit(tx, keep)
  }

  return {
    within,
    record: event => store.write(tx => within(tx, event)).catch(onError)
  }
}

function entryOf(event: AuditEvent, id: string, nowMs: number): AuditEntry {
  return {
    id,
    at: new Date(nowMs).toISOString(),
    action: event.action,
    actor: event.actor.name,
    ip: event.actor.ip,
    claimedIp: event.actor.claimedIp ?? null,
    projectId: event.projectId ?? null,
    target: event.target ?? null,
    detail: event.detail ?? null,
    ok: event.ok ?? true
  }
}
