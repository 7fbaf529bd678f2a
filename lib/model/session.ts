/** One browser session of the panel, as `GET /api/sessions` lists it. */
export interface BrowserSession {
  id: string
  createdAt: string
  /** Accurate to a minute. */
  lastUsedAt: string
  /** The time at which the session ends at the latest, however often it is used. */
  expiresAt: string
  /** Whether the browser keeps the session when it is closed. */
  remember: boolean
  /** The address of the sign-in: the right-most one that no trusted proxy wrote. */
  ip: string | null
  userAgent: string | null
  /** The named token with which the session began; null: the admin token. */
  tokenId: string | null
  /** When its user gave the secret last; null for a session that an earlier version began. */
  provenAt: string | null
}

/** A session in the list. `current` marks the session of this request. */
export interface ListedSession extends BrowserSession {
  current: boolean
  /** The name of the token; null for the admin token. */
  tokenName: string | null
}

/** The caller, as `GET /api/auth/session` describes it. Without a session `id`, `csrf` and the instants are null. */
export interface SignedIn {
  role: string
  /** The actor in the audit log. */
  name: string
  /** The named token of the caller; null: another kind of token. */
  token: { id: string; name: string } | null
  /** The projects that the caller is limited to; null: none. */
  projects: string[] | null
  id: string | null
  /** The value of the header X-Svc-Csrf, which every change with the session needs. */
  csrf: string | null
  expiresAt: string | null
  /** Until when the session may use routes that ask for the token again; null: without an end, or no session. */
  provenUntil: string | null
  /** Whether those routes refuse the session now. False without a session: a bearer token proves itself. */
  needsProof: boolean
  /** Whether the server has nodes, or machines may become nodes: the panel shows the fleet then. */
  fleet: boolean
}
