import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import { systemActor, type AuditEntry, type AuditEvent } from '../model/audit.js'
import type { Store, Transaction } from '../store/database.js'
import { markAuditTree, readAuditTree, removeAuditBefore } from '../store/tables/audit.js'
import { trimLeaves, writeLeaf } from './leaves.js'
import { trimmedAction } from './ranges.js'

/** Writes the audit log. */
export interface Audit {
  /** Adds an entry to a transaction, so that it is stored exactly when its change is. */
  within(tx: Transaction, event: AuditEvent): void
  /** Writes an entry in its own transaction. Never rejects: errors go to `onError`. */
  record(event: AuditEvent): Promise<void>
}

const dayMs = 24 * 60 * 60_000

/** Creates the audit log. */
export function createAudit(needs: {
  store: Pick<Store, 'write'>
  clock: Clock
  ids: Pick<Ids, 'id'>
  onError(error: unknown): void
  /**
   * Days to keep entries (setting `audit_days`). Older ones are removed with the first entry of a day and of a start.
   */
  keepDays(): number
  /** Called with the number of leaves after an entry was added, before its transaction ends. */
  onLeaf?: (size: number) => void
}): Audit {
  const { store, clock, ids, onError, keepDays, onLeaf = () => {} } = needs
  let removeAfterMs = -Infinity

  function within(tx: Transaction, event: AuditEvent): void {
    const nowMs = clock.now()
    const seq = writeLeaf(tx, entryOf(event, ids.id('aud_'), nowMs))
    if (seq === null) return
    onLeaf(seq)
    if (nowMs < removeAfterMs) return
    removeAfterMs = nowMs + dayMs
    trim(tx, nowMs)
  }

  function trim(tx: Transaction, nowMs: number): void {
    const days = keepDays()
    const before = new Date(nowMs - days * dayMs).toISOString()
    const { upTo, removed } = removeAuditBefore(tx, before)
    const { brokenSince } = readAuditTree(tx)
    // The fault is as old as the entries that are removed: those that it concerns are removed, too.
    if (brokenSince !== null && brokenSince < before) markAuditTree(tx, null)
    if (removed === 0) return
    const detail = `${removed} older than ${days} ${days === 1 ? 'day' : 'days'}`
    const event = { action: trimmedAction, actor: systemActor, target: `1-${upTo}`, detail }
    writeLeaf(tx, entryOf(event, ids.id('aud_'), nowMs))
    trimLeaves(tx)
  }

  return {
    within,
    record: event => store.write(tx => within(tx, event)).catch(onError)
  }
}

/** Returns the stored entry of an event. */
export function entryOf(event: AuditEvent, id: string, nowMs: number): AuditEntry {
  return {
    id,
    at: new Date(nowMs).toISOString(),
    action: event.action,
    actor: event.actor.name,
    tokenId: event.actor.token?.id ?? null,
    tokenName: event.actor.token?.name ?? null,
    role: event.actor.role ?? null,
    sessionId: event.actor.session?.id ?? null,
    ip: event.actor.ip,
    claimedIp: event.actor.claimedIp ?? null,
    projectId: event.projectId ?? null,
    target: event.target ?? null,
    detail: event.detail ?? null,
    ok: event.ok ?? true,
    failures: null,
    seq: null
  }
}
