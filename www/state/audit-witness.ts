import type { AuditCheckpoint, ConsistencyProof } from '../../lib/model/audit.js'
import { type Client, Refused } from '../server/client.js'
import { isConsistent } from '../shared/merkle-proof.js'
import { createSha256 } from '../shared/sha256.js'
import type { TokenStorage } from './session.js'

/** What this browser knows about the audit log of its server. */
export interface AuditSight {
  /** Number of entries that were compared; 0 if the log was not seen before. */
  size: number
  /** What is wrong: an English text with the values `before` and `now`, passed to t(). Null: nothing. */
  fault: string | null
  before: number
  now: number
}

/** Keeps the newest checkpoint of the server's audit log, and compares the log with it. */
export type AuditWitness = ReturnType<typeof createAuditWitness>

export interface AuditWitnessNeeds {
  /** Address of the panel: two servers on one host stay separate. */
  base: string
  storage: TokenStorage
  /** Return null for an answer of 404 or 409, and reject otherwise. */
  checkpoint(): Promise<AuditCheckpoint | null>
  proof(from: number, to: number): Promise<ConsistencyProof | null>
}

/** The lines of a checkpoint that matter here. */
interface Head {
  origin: string
  size: number
  root: string
}

const lost = 'The audit log has lost entries: it had {before}, and now has {now}.'
const rewritten = 'The audit log was rewritten: it does not begin with the {before} entries that this browser saw.'
const gone = 'The server does not show its audit log any more, which had {before} entries.'
const incomparable =
  'The audit log cannot be compared with the {before} entries that this browser saw: hashes of old entries were removed.'

/** Returns null for what the server does not have, or cannot prove any more. */
function orNull(error: unknown): null {
  if (error instanceof Refused && (error.status === 404 || error.status === 409)) return null
  throw error
}

/** Returns the witness of a server. What it saw is in the storage of the browser. */
export function witnessOf({ address, call }: Client, storage: TokenStorage = localStorage): AuditWitness {
  return createAuditWitness({
    base: address(''),
    storage,
    checkpoint: () => call('GET /api/audit/checkpoint').catch(orNull),
    proof: (from, to) => call('GET /api/audit/proof', { query: { from, to } }).catch(orNull)
  })
}

/** Creates the witness of a panel. It compares trees, and leaves signatures to the command line. */
export function createAuditWitness({ base, storage, checkpoint, proof }: AuditWitnessNeeds) {
  const key = `svc.audit ${base}`

  function seen(): Head | null {
    return headOf(storage.getItem(key) ?? '')
  }

  async function faultOf(before: Head, now: Head): Promise<string | null> {
    if (now.origin !== before.origin) return rewritten
    if (now.size < before.size) return lost
    const found = now.size === before.size ? { proof: [] } : await proof(before.size, now.size)
    if (found === null) return incomparable
    const claim = { from: before.size, fromRoot: bytesOf(before.root), to: now.size, toRoot: bytesOf(now.root) }
    return isConsistent({ ...claim, proof: found.proof.map(bytesOf) }, hashNode) ? null : rewritten
  }

  return {
    /**
     * Asks for the newest checkpoint and for the proof that the log still begins with the kept one. Returns null for a
     * server without checkpoints that never had any.
     */
    async look(): Promise<AuditSight | null> {
      const before = seen()
      const found = await checkpoint()
      const now = found === null ? null : headOf(found.note)
      if (found === null || now === null)
        return before === null ? null : { size: before.size, fault: gone, before: before.size, now: 0 }
      const fault = before === null ? null : await faultOf(before, now)
      // What another tab has kept meanwhile is replaced only by a larger tree.
      if (fault === null && now.size >= (seen()?.size ?? 0)) storage.setItem(key, found.note)
      return { size: before?.size ?? 0, fault, before: before?.size ?? 0, now: now.size }
    },

    /** Forgets the kept checkpoint, for example after a restore. */
    forget: (): void => storage.removeItem(key)
  }
}

/** Reads the first lines of a checkpoint; null if they are malformed. */
function headOf(note: string): Head | null {
  const [origin, size, root] = note.split('\n')
  if (!origin || root === undefined || !/^\d{1,15}$/.test(size ?? '') || !/^[A-Za-z0-9+/]{43}=$/.test(root)) return null
  return { origin, size: Number(size), root }
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), character => character.charCodeAt(0))
}

function hashNode(left: Uint8Array, right: Uint8Array): Uint8Array {
  const digest = createSha256()
  digest.push(Uint8Array.of(1))
  digest.push(left)
  digest.push(right)
  return Uint8Array.from(digest.hex().match(/../g) ?? [], pair => Number.parseInt(pair, 16))
}
