import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { matchesCidr, networkOf, parseCidr } from '../http/core/headers.js'
import type { ClientAddress } from '../http/core/route.js'
import type { Store, Transaction } from '../core/store/database.js'
import { type Actor, type AuditEntry, systemActor } from '../model/audit.js'
import { findAudit, insertAudit, trimFailures, updateAudit } from '../core/store/tables/audit.js'
import { entryOf, sealEntries, trimLeaves, writeLeaf } from '../core/audit/audit.js'
import { keptFailures, trimmedAction, writeRanges } from '../core/audit/tree.js'
import { Refusal } from '../base/errors.js'
import type { Failure } from './limiter.js'

/*
 * Failed attempts in the audit log: one entry per network (limiter.ts) and minute, with a count. The first failure of a
 * minute writes the entry. Later ones are counted in memory and written at the end of the minute. So a fast guesser
 * makes neither the log nor the disk usage grow faster, and never displaces entries of changes. An entry becomes a leaf
 * of the log's tree at the end of its minute, because a leaf never changes; after a crash, at the next start.
 */
const minuteMs = 60_000
/** Maximum number of networks with their own entry in one minute. Others share one entry without an address. */
const maxNetworks = 1000
/** Number of entries between two removals of old ones. */
const trimEvery = 100
/** Number of entries that are written in one transaction. */
const writtenTogether = 100

/** Records failed attempts. */
export type Failures = ReturnType<typeof createFailures>

interface Summary {
  id: string
  /** Whether this is the entry shared by the networks without their own. */
  isShared: boolean
  failed: number
  refused: number
  isLocked: boolean
  isWritten: boolean
}

interface Needs {
  store: Pick<Store, 'write'>
  clock: Clock
  ids: Pick<Ids, 'id'>
  onError(error: unknown): void
  /** Maximum number of entries. The oldest are removed. */
  keep?: number
}

/** Creates the recorder of failed attempts. */
export function createFailures({ store, clock, ids, onError, keep = keptFailures }: Needs) {
  let minute = -1
  let summaries = new Map<string, Summary>()
  let timer: NodeJS.Timeout | undefined
  let untilTrim = 0

  const write = (work: (tx: Transaction) => void): Promise<void> => store.write(work).catch(onError)

  function insert(summary: Summary, client: ClientAddress): void {
    const addresses = summary.isShared ? { ip: null } : addressesOf(client)
    const event = { action: 'auth.login_failed', actor: { name: 'anonymous', ...addresses }, ok: false }
    const entry = { ...entryOf(event, summary.id, clock.now()), ...fieldsOf(summary) }
    summary.isWritten = true
    void write(tx => {
      insertAudit(tx, entry)
      if (untilTrim-- > 0) return
      untilTrim = trimEvery
      trim(tx)
    })
  }

  function trim(tx: Transaction): void {
    const removed = trimFailures(tx, keep)
    if (removed.length === 0) return
    const detail = `${removed.length} summaries of failed attempts`
    const event = { action: trimmedAction, actor: systemActor, target: writeRanges(removed), detail }
    writeLeaf(tx, entryOf(event, ids.id('aud_'), clock.now()))
    trimLeaves(tx)
  }

  async function update(summary: Summary): Promise<void> {
    summary.isWritten = true
    await write(tx => void updateAudit(tx, summary.id, fieldsOf(summary)))
  }

  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const ended = [...summaries.values()]
    summaries = new Map()
    const writes: Array<Promise<void>> = []
    for (let at = 0; at < ended.length; at += writtenTogether)
      writes.push(write(tx => seal(tx, ended.slice(at, at + writtenTogether))))
    await Promise.all(writes)
  }

  function seal(tx: Transaction, ended: readonly Summary[]): void {
    for (const summary of ended) if (!summary.isWritten) updateAudit(tx, summary.id, fieldsOf(summary))
    sealEntries(
      tx,
      ended.flatMap(({ id }) => findAudit(tx, id) ?? [])
    )
  }

  /** Starts new entries if a new minute has begun. */
  function turn(nowMs: number): void {
    const current = Math.floor(nowMs / minuteMs)
    if (current === minute) return
    void flush()
    minute = current
  }

  return {
    note(client: ClientAddress, failure: Failure): void {
      const nowMs = clock.now()
      turn(nowMs)
      const own = networkOf(client.witnessed)
      const isShared = !summaries.has(own) && summaries.size >= maxNetworks
      const key = isShared ? 'shared' : own
      const found = summaries.get(key)
      const summary = found ?? {
        id: ids.id('aud_'),
        isShared,
        failed: 0,
        refused: 0,
        isLocked: false,
        isWritten: false
      }
      summaries.set(key, summary)
      if (failure === 'refused') summary.refused++
      else summary.failed++
      summary.isLocked ||= failure === 'locked'
      summary.isWritten = false
      if (found === undefined) insert(summary, client)
      else if (failure === 'locked' && !isShared) void update(summary)
      timer ??= setTimeout(() => void flush(), minuteMs - (nowMs % minuteMs)).unref()
    },

    /**
     * Writes the counts and ends the entries, so that later failures begin new ones. Resolves once they are on disk.
     */
    flush
  }
}

function fieldsOf({ failed, refused, isLocked, isShared }: Summary): Pick<AuditEntry, 'failures' | 'detail'> {
  const parts = [
    failed === 0 ? '' : `${failed} failed ${failed === 1 ? 'attempt' : 'attempts'}`,
    refused === 0 ? '' : `${refused} refused without a check`,
    isShared ? 'from other addresses' : isLocked ? 'the address is locked' : ''
  ]
  return { failures: failed + refused, detail: parts.filter(Boolean).join(', ') }
}

/**
 * Returns the addresses of an actor: the witnessed one, and the claimed one if it differs. Both are null for the local
 * socket.
 */
export function addressesOf({ local, witnessed, address }: ClientAddress): Required<Pick<Actor, 'ip' | 'claimedIp'>> {
  if (local) return { ip: null, claimedIp: null }
  return { ip: witnessed, claimedIp: address === witnessed ? null : address }
}

/** Addresses that are allowed to deploy, roll back and open a terminal (setting `allowed_ips`). */
export type AllowList = ReturnType<typeof createAllowList>

/** Creates the list. `allowed` returns the current addresses and CIDR blocks. An empty list allows every address. */
export function createAllowList({ allowed }: { allowed(): readonly string[] }) {
  return {
    /** Refuses: 403 `address_not_allowed`. */
    check(address: string): void {
      if (isAllowed(allowed(), address)) return
      const sentence = `Permission denied: the address "${address}" is not in the setting allowed_ips`
      throw new Refusal('forbidden', 'address_not_allowed', sentence)
    }
  }
}

/** Refuses (400 naming `allowed_ips`) a list that does not contain the address of the client that sets it. */
export function checkKeepsIn(allowed: readonly string[], address: string): void {
  if (isAllowed(allowed, address)) return
  const sentence = `"allowed_ips" cannot be set: it would lock out your own address "${address}"`
  throw new Refusal('invalid', 'shuts_out_yourself', sentence, { field: 'allowed_ips' })
}

function isAllowed(allowed: readonly string[], address: string): boolean {
  if (allowed.length === 0) return true
  return matchesCidr(
    address,
    allowed.flatMap(item => parseCidr(item) ?? [])
  )
}
