/** One entry of the audit log (§2.8). It never contains a secret. */
export interface AuditEntry {
  id: string
  /** The time of the event, as ISO text. */
  at: string
  /** `noun.verb`, e.g. `project.create`, `auth.login_failed`, `deployment.mark_status`. */
  action: string
  /** The actor: `admin`, `token:<name>`, `project:<id>`, `global-deploy`, `local`, `anonymous`, `system`. */
  actor: string
  /** The id of the actor's named token; null: none. */
  tokenId: string | null
  /** Its name at that time. */
  tokenName: string | null
  /** The role of the actor; null for entries of an earlier version, and for what the server does by itself. */
  role: string | null
  /** The id of the browser session of the request; null: none. */
  sessionId: string | null
  /** The observed address: the right-most one that no trusted proxy wrote. */
  ip: string | null
  /** The claimed address (the first of X-Forwarded-For); null if it equals `ip`. */
  claimedIp: string | null
  projectId: string | null
  /** The object of the action: an id, or the key of a setting. */
  target: string | null
  detail: string | null
  ok: boolean
  /** The number of failed attempts of one address within a minute, if the entry summarises them; null otherwise. */
  failures: number | null
  /** The number of the entry in the Merkle tree of the log, from 1; null: it can still change. */
  seq: number | null
}

/** A signed checkpoint of the log's Merkle tree, as `GET /api/audit/checkpoint` answers it. */
export interface AuditCheckpoint {
  /** The number of entries that it covers. */
  size: number
  at: string
  /** The signed note (C2SP tlog-checkpoint). */
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
  proof: string[]
}

/** The proof that an entry is in the tree of a checkpoint. Hashes are base64. */
export interface InclusionProof {
  id: string
  /** The number of the entry, from 1. */
  seq: number
  /** The hash of its leaf. */
  leaf: string
  proof: string[]
  checkpoint: AuditCheckpoint
}

/** An event to record. The audit log adds the id and the time. */
export interface AuditEvent {
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
}

/** The actor of what the server does by itself. */
export const systemActor: Actor = { name: 'system', ip: null, claimedIp: null }
