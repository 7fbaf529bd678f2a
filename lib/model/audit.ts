import type { Instant } from './scalars.js'

/** One entry of the audit log (§2.8). It never contains a secret. @schema AuditEntry */
export interface AuditEntry {
  id: string
  /** The time of the event, as ISO text. */
  at: Instant
  /** What was done, as `noun.verb`: `project.create`, `auth.login_failed`. */
  action: string
  /** Who did it: `admin`, `token:<name>`, `project:<id>`, `global-deploy`, `local`, `anonymous` or `system`. */
  actor: string
  /** The named token of the actor. */
  tokenId: string | null
  /** The name that the token had. */
  tokenName: string | null
  /** The role of the actor. Null for what the server does by itself. */
  role: string | null
  /** The browser session of the request. */
  sessionId: string | null
  /** The client address that the server saw. */
  ip: string | null
  /** The client address in X-Forwarded-For. Null if it is the same as `ip`. */
  claimedIp: string | null
  projectId: string | null
  /** The id of the changed record, or the key of the changed setting. */
  target: string | null
  detail: string | null
  /** Whether the action succeeded. */
  ok: boolean
  /** Number of failed attempts that the entry sums up. Null for other entries. */
  failures: number | null
  /** The number of the entry in the Merkle tree of the log, from 1. Null while the entry can still change. */
  seq: number | null
}

/** A signed checkpoint of the log's Merkle tree, as `GET /api/audit/checkpoint` answers it. @schema AuditCheckpoint */
export interface AuditCheckpoint {
  /** Number of entries that it covers. */
  size: number
  at: Instant
  /** The signed note (C2SP tlog-checkpoint): origin, size and root, and the signature. */
  note: string
  /** The key of the server, as verifiers of signed notes write it. */
  key: string
}

/** The keys before and after a rotation, as verifiers of signed notes write them. */
export interface RotatedKey {
  before: string
  after: string
}

/** The proof that a tree begins with a smaller one. Hashes are base64. */
export interface ConsistencyProof {
  from: number
  to: number
  /** The hashes of RFC 9162, section 2.1.4, in base64. */
  proof: string[]
}

/** The proof that an entry is in the tree of a checkpoint. Hashes are base64. */
export interface InclusionProof {
  id: string
  /** The number of the entry, from 1. */
  seq: number
  /** The hash of its leaf, in base64. */
  leaf: string
  /** The hashes of RFC 9162, section 2.1.3, in base64. */
  proof: string[]
  checkpoint: AuditCheckpoint
}

/** An event to record. The audit log adds the id and the time. */
export interface AuditEvent {
  /** One of base/shared/audit.ts. */
  action: string
  actor: Actor
  projectId?: string | null
  target?: string | null
  detail?: string | null
  ok?: boolean
}

/** The actor of a request, determined once from the token or session and passed to services for the audit log. */
export interface Actor {
  /** The same as AuditEntry.actor. */
  name: string
  /** The observed address. */
  ip: string | null
  /** The claimed address, if it differs. */
  claimedIp?: string | null
  /** The role of the caller. */
  role?: string
  /** The named token of the caller. */
  token?: { id: string; name: string } | undefined
  /** The browser session of the request. */
  session?: { id: string } | undefined
  /**
   * Refuses (401 `token_revoked`) an actor who would not be accepted any more as at the beginning of its request. If it
   * `finishes` what it began, it may have expired. Undefined: its rights end with the process.
   */
  checkAgain?: ((finishes: boolean) => void) | undefined
}

/** Whether the request of an actor would not be accepted any more. */
export function hasLostRight({ checkAgain }: Actor): boolean {
  try {
    checkAgain?.(false)
    return false
  } catch {
    return true
  }
}

/** Returns the actor of a change that has begun: it is recorded even if the actor loses its right now. */
export function judged(actor: Actor): Actor {
  return { ...actor, checkAgain: undefined }
}

/** The actor of what the server does by itself. */
export const systemActor: Actor = { name: 'system', ip: null, claimedIp: null }
