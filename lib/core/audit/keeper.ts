/*
 * Keeps the tree of the audit log: makes leaves of what an upgrade or a crash left over, checks the tree after the start,
 * and signs checkpoints: at the start and the stop, every thousand entries, every hour with new ones, after each
 * deployment, and when a client asks for one.
 */
import { open } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, instantOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { messageOf } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import { type Actor, type AuditEvent, type RotatedKey, systemActor } from '../../model/audit.js'
import { hubKeyText } from '../../model/fleet-wire.js'
import type { Store, Transaction } from '../store/database.js'
import {
  auditBlocks,
  auditLeaves,
  auditTargets,
  endAuditBaseline,
  hasAuditSince,
  insertAuditCheckpoint,
  markAuditTree,
  nameAuditTree,
  newestAuditCheckpoint,
  newestAuditPosition,
  readAuditTree,
  sealedAudit,
  type StoredCheckpoint,
  unsealedAudit
} from '../store/tables/audit.js'
import { insertHubKey } from '../store/tables/fleet.js'
import { entryOf, mendFrontier, readFrontier, readNodes, rootOfLeaves, sealEntries, writeLeaf } from './audit.js'
import { readCheckpoint, readNote, type Signer, signNote, writeCheckpoint, type ServerKey } from './signed-note.js'
import {
  blockLeaves,
  createGaps,
  entryText,
  frontierAt,
  type Gaps,
  hashLeaf,
  rootOf,
  type SealedEntry,
  trimmedAction
} from './tree.js'

/** The state of the tree, for the health report. */
interface TreeState {
  ok: boolean
  brokenSince: string | null
  why: string | null
}

/** A checkpoint, the key that verifies it, and the keys that sign. */
export interface SignedCheckpoint extends StoredCheckpoint {
  verifierKey: string
  signers: readonly Signer[]
}

interface KeeperNeeds {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  key: ServerKey
  onError(error: unknown): void
  /** Called with each new checkpoint once it is on the disk. */
  onCheckpoint?: (checkpoint: StoredCheckpoint) => Promise<void>
}

const entriesPerCheckpoint = 1000
const hourMs = 60 * 60_000
/** Number of stored checkpoints. */
const keptCheckpoints = 1000
/** Number of entries that become leaves in one transaction. */
const sealedTogether = 200
const brokenAction = 'audit.tree_broken'

/** Keeps the tree of the audit log. */
export class Keeper {
  readonly #needs: KeeperNeeds
  /** What was written before this start no longer changes. */
  readonly #left: number
  readonly #stopping = new AbortController()
  #newest: StoredCheckpoint | null
  #latest: Promise<unknown> = Promise.resolve()
  #working: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #isDue = false

  constructor(needs: KeeperNeeds) {
    this.#needs = needs
    this.#left = newestAuditPosition(needs.store)
    this.#newest = newestAuditCheckpoint(needs.store)
  }

  /** Begins the work in the background. */
  start(): void {
    this.#working = this.#begin().catch(this.#needs.onError)
    this.#timer = setInterval(() => void this.#sign(), hourMs).unref()
  }

  /** Signs a checkpoint if there are new entries, and ends the work. Never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#stopping.abort()
    await this.#working
    await this.#sign()
  }

  /** Signs a checkpoint if this size is a thousand entries after the last one. */
  consider(size: number): void {
    if (this.#isDue || size - (this.#newest?.size ?? 0) < entriesPerCheckpoint) return
    this.#isDue = true
    void this.#sign().finally(() => (this.#isDue = false))
  }

  /** Signs a checkpoint if there are new entries. Errors go to `onError`. */
  sign(): void {
    void this.#sign()
  }

  /** Returns a checkpoint of all entries; null while there are none. Refuses `server_key`. */
  current(): Promise<SignedCheckpoint | null> {
    const next = this.#latest.then(() => this.#make())
    this.#latest = next.catch(() => {})
    return next
  }

  /**
   * Replaces the key of the server. An entry contains the new key, signed by both. Returns the keys as verifiers write
   * them. Refuses `server_key`, and what the store refuses.
   */
  async rotateKey(actor: Actor): Promise<RotatedKey> {
    const next = this.#latest.then(() => this.#rotate(actor))
    this.#latest = next.catch(() => {})
    const rotated = await next
    await this.#sign()
    return rotated
  }

  /** Returns the newest checkpoint that is on the disk; null if there is none. */
  newest(): StoredCheckpoint | null {
    return this.#newest
  }

  state(): TreeState {
    const { brokenSince, brokenWhy } = readAuditTree(this.#needs.store)
    return { ok: brokenSince === null, brokenSince, why: brokenWhy }
  }

  /** Returns why the key cannot sign, or null. */
  async keyProblem(): Promise<string | null> {
    const { key, store } = this.#needs
    return await key.signers(readAuditTree(store).origin).then(() => null, messageOf)
  }

  #write(tx: Transaction, event: AuditEvent) {
    return writeLeaf(tx, entryOf(event, this.#needs.ids.id('aud_'), this.#needs.clock.now()))
  }

  /** Makes leaves of the entries from before this start, in their order. */
  async #sealRest(): Promise<void> {
    const { store } = this.#needs
    for (let count = sealedTogether; count === sealedTogether && !this.#stopping.signal.aborted; await nextTurn()) {
      count = await store.write(tx => {
        const rest = unsealedAudit(tx, this.#left, sealedTogether)
        sealEntries(tx, rest)
        // Stops if they cannot become leaves, because the tree cannot be mended.
        return unsealedAudit(tx, this.#left, 1)[0]?.id === rest[0]?.id ? 0 : rest.length
      })
    }
    if (!this.#stopping.signal.aborted && readAuditTree(store).isPending) await store.write(endBaseline)
  }

  async #check(): Promise<void> {
    const { store, clock } = this.#needs
    const fault = await checkTree(store, this.#stopping.signal)
    if (fault === null || this.#stopping.signal.aborted) return
    await store.write(tx => {
      const { brokenSince } = readAuditTree(tx)
      const found = { since: instantOf(clock), why: fault.why }
      if (fault.isMendable) mendFrontier(tx, found)
      else if (brokenSince === null) markAuditTree(tx, found)
    })
  }

  /** Writes an entry about a damage that none was written about yet. */
  #tellBroken(tx: Transaction): void {
    const { brokenSince, brokenWhy } = readAuditTree(tx)
    if (brokenSince === null || hasAuditSince(tx, brokenAction, brokenSince)) return
    this.#write(tx, { action: brokenAction, actor: systemActor, detail: brokenWhy, ok: false })
  }

  async #make(): Promise<SignedCheckpoint | null> {
    const { store, key, clock, onCheckpoint } = this.#needs
    const { origin: named, size } = readAuditTree(store)
    if (size === 0) return null
    const { origin, signers } = await key.signers(named)
    const verifierKey = (signers[0] as Signer).verifierKey
    const made = await store.write(tx => {
      this.#tellBroken(tx)
      const row = readAuditTree(tx)
      const frontier = row.isPending ? null : readFrontier(row)
      const isKnown = this.#newest?.size === row.size && isSignedBy(this.#newest.note, signers)
      if (frontier === null || frontier.size === 0 || isKnown) return this.#newest
      if (row.origin === null) nameAuditTree(tx, origin)
      const extensions = this.#newest === null && row.baseline > 0 ? [`baseline ${row.baseline}`] : []
      const text = writeCheckpoint({ origin, size: frontier.size, root: rootOf(frontier), extensions })
      const checkpoint = { size: frontier.size, at: instantOf(clock), note: signNote(text, signers) }
      insertAuditCheckpoint(tx, checkpoint, keptCheckpoints)
      return checkpoint
    })
    // Only now it is on the disk. A root that was signed and then lost with its entries would look like a forgery.
    const isNew = made !== null && made !== this.#newest
    this.#newest = made
    if (isNew) await onCheckpoint?.(made)
    return made === null ? null : { ...made, verifierKey, signers }
  }

  async #rotate(actor: Actor): Promise<RotatedKey> {
    const { key, store } = this.#needs
    const { origin } = await key.signers(readAuditTree(store).origin)
    const { before, after } = await key.rotate(origin)
    const text = `${origin}\nkey ${after.verifierKey}\n`
    const lines = [before, after].map(signer => signer.line(text).trim())
    const event = { action: 'audit.rotate_key', actor, target: after.verifierKey, detail: lines.join(' ') }
    await store.write(tx => {
      if (readAuditTree(tx).origin === null) nameAuditTree(tx, origin)
      // The nodes of a fleet learn the new key from the earlier one.
      insertHubKey(tx, { publicKey: after.publicKey, signature: before.sign(hubKeyText(after.publicKey)) })
      this.#write(tx, event)
    })
    return { before: before.verifierKey, after: after.verifierKey }
  }

  #sign(): Promise<unknown> {
    return this.current().catch(this.#needs.onError)
  }

  async #begin(): Promise<void> {
    await this.#sealRest()
    await this.#check()
    if (!this.#stopping.signal.aborted) await this.#sign()
  }
}

/** Entries of this process waited for those from before. Summaries of failures that still change wait for their end. */
function endBaseline(tx: Transaction): void {
  endAuditBaseline(tx)
  sealEntries(
    tx,
    unsealedAudit(tx, newestAuditPosition(tx), Number.MAX_SAFE_INTEGER).filter(({ failures }) => failures === null)
  )
}

/** Returns whether the note has a signature of each of these keys. */
function isSignedBy(note: string, signers: readonly Signer[]): boolean {
  const ids = new Set(readNote(note)?.signatures.map(({ keyId }) => keyId))
  return signers.every(({ keyId }) => ids.has(keyId))
}

const appendMark = '>>'
const mode = 0o644

/**
 * Creates the writer. `place` is the value of the setting: a path, whose file is replaced, or `>>` and a path, to whose
 * file each note is appended. Empty writes nothing.
 */
export function createCheckpointFile(needs: { place(): string; onError(error: unknown): void }) {
  let latest: Promise<void> = Promise.resolve()

  async function writeOne(note: string): Promise<void> {
    const place = needs.place()
    if (place === '') return
    if (!place.startsWith(appendMark)) return replaceFile(place, note, mode)
    const file = await open(place.slice(appendMark.length).trim(), 'a', mode)
    try {
      // An empty line separates two notes.
      await file.appendFile(`${note}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  return {
    /** Writes a signed note. Errors go to `onError`. Resolves when it is on the disk. */
    write: (note: string): Promise<void> => (latest = latest.then(() => writeOne(note)).catch(needs.onError))
  }
}

type Reads = Pick<Store, 'get' | 'all'>

/** A fault of the stored tree. */
interface TreeFault {
  /** What is wrong, as the end of a sentence. */
  why: string
  /** Whether the frontier or the roots of blocks are wrong, which can be computed from the leaves. */
  isMendable: boolean
}

/**
 * Compares the entries of the log with the leaves of its tree, and the leaves with the frontier and the newest
 * checkpoint, block by block between other work. Returns the first fault, or null.
 */
export async function checkTree(store: Reads, signal?: AbortSignal): Promise<TreeFault | null> {
  const gaps = createGaps()
  for (let block = 0; block * blockLeaves < readAuditTree(store).size; block++) {
    const fault = faultOfBlock(store, block, gaps)
    if (fault !== null) return fault
    await nextTurn()
    if (signal?.aborted) return null
  }
  for (const target of auditTargets(store, trimmedAction)) gaps.announce(target)
  const missing = gaps.unannounced()
  if (missing !== null) return changed(`entry ${missing} is missing, and no entry says that it was removed`)
  return faultOfFrontier(store)
}

function faultOfBlock(store: Reads, block: number, gaps: Gaps): TreeFault | null {
  const { size } = readAuditTree(store)
  const [from, to] = [block * blockLeaves + 1, Math.min((block + 1) * blockLeaves, size)]
  const leaves = auditLeaves(store, from, to)
  const entries = new Map(sealedAudit(store, from, to).map(entry => [entry.seq, entry as SealedEntry]))
  const isComplete = to === (block + 1) * blockLeaves
  const root = isComplete ? auditBlocks(store, block, block).get(block) : undefined
  if (leaves.length === 0 && root !== undefined && entries.size === 0) {
    gaps.miss(from, to)
    return null
  }
  if (leaves.length !== to - from + 1) return changed(`hashes of the entries ${from} to ${to} are missing`)
  for (const { seq, hash } of leaves) {
    const entry = entries.get(seq)
    if (entry === undefined) gaps.miss(seq, seq)
    else if (!hashLeaf(entryText(entry)).equals(hash)) return changed(`entry ${seq} was changed`)
  }
  if (isComplete && !(root !== undefined && rootOfLeaves(store, block)?.equals(root)))
    return { why: `the entries ${from} to ${to} do not give the root of their block`, isMendable: true }
  return null
}

function faultOfFrontier(store: Reads): TreeFault | null {
  const row = readAuditTree(store)
  const frontier = readFrontier(row)
  const read = readNodes(store)
  if (frontier === null || !rootOf(frontier).equals(rootOf(frontierAt(row.size, read))))
    return { why: 'the entries do not give its frontier', isMendable: true }
  const note = readNote(newestAuditCheckpoint(store)?.note ?? '')
  const checkpoint = note === null ? null : readCheckpoint(note.text)
  if (checkpoint === null) return null
  const isPrefix = checkpoint.size <= row.size && rootOf(frontierAt(checkpoint.size, read)).equals(checkpoint.root)
  return isPrefix ? null : changed(`it does not begin with its checkpoint of ${checkpoint.size} entries`)
}

function changed(why: string): TreeFault {
  return { why, isMendable: false }
}
