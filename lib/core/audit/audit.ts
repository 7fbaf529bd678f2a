import { type Clock, instantOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { type AuditEntry, type AuditEvent, systemActor } from '../../model/audit.js'
import type { Reader, Store, Transaction } from '../store/database.js'
import {
  auditBlocks,
  auditLeaves,
  type AuditTreeRow,
  insertAudit,
  insertAuditBlock,
  insertAuditLeaf,
  lastAuditLeaf,
  markAuditTree,
  readAuditTree,
  removeAuditBefore,
  removeAuditLeaves,
  updateAudit,
  writeAuditFrontier,
  latestAuditCheckpoint
} from '../store/tables/audit.js'
import {
  appendLeaf,
  blockHeight,
  blockLeaves,
  entryText,
  type Frontier,
  frontierAt,
  hashBytes,
  hashLeaf,
  hashNode,
  isFrontier,
  type ReadNode,
  type SealedEntry,
  trimmedAction
} from './tree.js'

/** Writes the audit log. */
export type Audit = ReturnType<typeof createAudit>

const dayMs = 24 * 60 * 60_000

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
}) {
  const { store, clock, ids, onError, keepDays, onLeaf = () => {} } = needs
  let removeAfterMs = -Infinity

  function write(tx: Transaction, event: AuditEvent): void {
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
    /**
     * Adds an entry to a transaction, so that it is stored exactly when its change is. Refuses the change of an actor who
     * has lost its rights while the server computed it.
     */
    within(tx: Transaction, event: AuditEvent): void {
      if (event.ok !== false) event.actor.checkAgain?.(true)
      write(tx, event)
    },
    /** Writes an entry of what has happened in its own transaction. Never rejects: errors go to `onError`. */
    record: (event: AuditEvent): Promise<void> => store.write(tx => write(tx, event)).catch(onError)
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

/*
 * The leaves of the audit log's tree in the database. An entry becomes a leaf in the transaction that writes it, or when
 * it can no longer change. The hash of a leaf stays when its entry is removed, so that later proofs are possible.
 */

/** Maximum number of leaves whose hashes are kept after their entries were removed: about 40 bytes each. */
const maxLeaves = 500_000

/**
 * Writes a new entry as a leaf and returns its number. While entries from before the tree wait, it waits with them, and
 * the result is null.
 */
export function writeLeaf(tx: Transaction, entry: AuditEntry): number | null {
  const row = readAuditTree(tx)
  const frontier = row.isPending ? null : frontierOf(tx, row, entry.at)
  const sealed = frontier === null ? entry : { ...entry, seq: frontier.size + 1 }
  insertAudit(tx, sealed)
  if (frontier !== null) writeFrontier(tx, addLeaf(tx, frontier, sealed as SealedEntry))
  return sealed.seq
}

/** Makes leaves of stored entries that no longer change, in this order. */
export function sealEntries(tx: Transaction, entries: readonly AuditEntry[]): void {
  const at = entries[0]?.at
  let frontier = at === undefined ? null : frontierOf(tx, readAuditTree(tx), at)
  if (frontier === null) return
  for (const entry of entries) {
    const sealed = { ...entry, seq: frontier.size + 1 }
    if (!updateAudit(tx, entry.id, { seq: sealed.seq })) continue
    frontier = addLeaf(tx, frontier, sealed)
  }
  writeFrontier(tx, frontier)
}

/** Returns the size and the frontier of the tree; null if the stored frontier does not fit the size. */
export function readFrontier({ size, frontier: bytes }: AuditTreeRow): Frontier | null {
  const all = Buffer.from(bytes)
  const hashes: Buffer[] = []
  for (let at = 0; at < all.length; at += hashBytes) hashes.push(all.subarray(at, at + hashBytes))
  const frontier = { size, hashes }
  return isFrontier(frontier) ? frontier : null
}

/**
 * Computes the frontier and the roots of the blocks from the hashes of the leaves and replaces the damaged ones. The
 * tree remembers the fault. Returns null if hashes are missing: entries are then written without becoming leaves.
 */
export function mendFrontier(tx: Transaction, fault: { since: string; why: string }): Frontier | null {
  if (readAuditTree(tx).brokenSince === null) markAuditTree(tx, fault)
  try {
    const size = lastAuditLeaf(tx)
    mendBlocks(tx, size)
    const frontier = frontierAt(size, readNodes(tx))
    writeFrontier(tx, frontier)
    return frontier
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

/** Computes the root of each block of which all leaves are stored. */
function mendBlocks(tx: Transaction, size: number): void {
  for (let block = 0; block < Math.floor(size / blockLeaves); block++) {
    const root = rootOfLeaves(tx, block)
    if (root !== null && !auditBlocks(tx, block, block).get(block)?.equals(root)) insertAuditBlock(tx, block, root)
  }
}

/** Returns the root of a block, computed from its leaves; null if their hashes were removed. */
export function rootOfLeaves(db: Reader, block: number): Buffer | null {
  const found = auditLeaves(db, block * blockLeaves + 1, (block + 1) * blockLeaves)
  return found.length === blockLeaves ? fold(found.map(({ hash }) => hash)) : null
}

/** Returns a function that reads nodes of the tree. It refuses `history_gone` if the hashes of a node were removed. */
export function readNodes(db: Reader): ReadNode {
  const read: ReadNode = (height, number) => {
    if (height > blockHeight) return fold(blocksBelow(height, number))
    const block = height === blockHeight ? auditBlocks(db, number, number).get(number) : undefined
    return block ?? fold(leavesBelow(height, number))
  }

  function blocksBelow(height: number, number: number): Buffer[] {
    const count = 2 ** (height - blockHeight)
    const found = auditBlocks(db, number * count, (number + 1) * count - 1)
    if (found.size !== count) throw historyGone(number * count * blockLeaves + 1)
    return [...found.values()]
  }

  function leavesBelow(height: number, number: number): Buffer[] {
    const count = 2 ** height
    const found = auditLeaves(db, number * count + 1, (number + 1) * count)
    if (found.length !== count) throw historyGone(number * count + 1)
    return found.map(({ hash }) => hash)
  }

  return read
}

/** Removes the hashes of old leaves above the limit. The roots of their blocks stay. */
export function trimLeaves(tx: Transaction, keep = maxLeaves): void {
  const { size } = readAuditTree(tx)
  const upTo = Math.floor((size - keep) / blockLeaves) * blockLeaves
  if (upTo > 0) removeAuditLeaves(tx, upTo, blockLeaves)
}

/** Returns the frontier to append to. */
function frontierOf(tx: Transaction, row: AuditTreeRow, at: string): Frontier | null {
  return (
    readFrontier(row) ??
    mendFrontier(tx, { since: at, why: `its frontier does not fit its size of ${row.size} entries` })
  )
}

/** Adds the leaf of an entry; returns the frontier after it, which is not written yet. */
function addLeaf(tx: Transaction, before: Frontier, sealed: SealedEntry): Frontier {
  const hash = hashLeaf(entryText(sealed))
  const { frontier, block } = appendLeaf(before, hash)
  insertAuditLeaf(tx, sealed.seq, hash)
  if (block !== null) insertAuditBlock(tx, frontier.size / blockLeaves - 1, block)
  return frontier
}

function writeFrontier(tx: Transaction, { size, hashes }: Frontier): void {
  writeAuditFrontier(tx, { size, frontier: Buffer.concat(hashes) })
}

/** Returns the root of a power of two of nodes. */
function fold(nodes: readonly Buffer[]): Buffer {
  let row = nodes
  while (row.length > 1) {
    const above: Buffer[] = []
    for (let at = 0; at < row.length; at += 2) above.push(hashNode(row[at] as Buffer, row[at + 1] as Buffer))
    row = above
  }
  return row[0] as Buffer
}

function historyGone(seq: number): Refusal {
  const sentence = `Cannot prove the audit log from entry ${seq} on: the hashes of entries that old were removed`
  return new Refusal('conflict', 'history_gone', sentence)
}

/**
 * Returns the latest time that a server knows of, as ISO text: that of its clock, or a later one that the clock has shown
 * before or that a checkpoint of the audit log has. So what has expired stays so if somebody sets the clock back.
 */
export function seenTime(db: Reader, clock: Clock): string {
  const now = instantOf(clock)
  if (clock.isTrusted === true) return now
  const shown = clock.latest === undefined ? now : new Date(clock.latest()).toISOString()
  return [now, shown, latestAuditCheckpoint(db) ?? now].sort().at(-1) as string
}
