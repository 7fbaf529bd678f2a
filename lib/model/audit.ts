/** One entry of the audit log (§2.8). Never holds a secret. */
export interface AuditEntry {
  id: string
  at: string
  /** `noun.verb`, e.g. `project.create`, `auth.login_failed`, `deployment.mark_status`. */
  action: string
  /** Who: `admin`, `project:<id>`, `global-deploy`, `local`, `anonymous`, `system`. */
  actor: string
  /** The address that was seen: the right-most one that no trusted proxy wrote. */
  ip: string | null
  /** The address that is claimed (the first of X-Forwarded-For); null where it is the same. */
  claimedIp: string | null
  projectId: string | null
  /** What it was done to: an id, a setting's key. */
  target: string | null
  detail: string | null
  ok: boolean
  /** Of an entry that sums up the failed attempts of one address within a minute: how many; null for any other. */
  failures: number | null
}

/** What a service says of an event; id and time are added where it is kept. */
export interface AuditEvent {
  action: string
  actor: Actor
  projectId?: string | null
  target?: string | null
  detail?: string | null
  ok?: boolean
}

/** Who acts: established once per request by its bearer, carried into services for audit. */
export interface Actor {
  /** As in AuditEntry.actor. */
  name: string
  /** Witnessed. */
  ip: string | null
  /** Claimed, where it differs. */
  claimedIp?: string | null
}

export const systemActor: Actor = { name: 'system', ip: null, claimedIp: null }
