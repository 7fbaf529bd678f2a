import type { Instant } from './scalars.js'

/** One browser session of the panel, as `GET /api/sessions` lists it. */
export interface BrowserSession {
  id: string
  createdAt: Instant
  /** Time of the last request, accurate to a minute. */
  lastUsedAt: Instant
  /** The latest end of the session. */
  expiresAt: Instant
  /** Whether the browser keeps the session after it is closed. */
  remember: boolean
  /** The client address of the login. */
  ip: string | null
  userAgent: string | null
  /** The named token of the session. Null: the admin token. */
  tokenId: string | null
  /** When the token was entered last. */
  provenAt: Instant | null
}

/** A session in the list. `current` marks the session of this request. */
export interface ListedSession extends BrowserSession {
  /** Whether the request uses this session. */
  current: boolean
  /** The name of the token; null for the admin token. */
  tokenName: string | null
}

/** The caller, as `GET /api/auth/session` describes it. Without a session `id`, `csrf` and the instants are null. */
export interface SignedIn {
  /** admin, operator, deployer or viewer. */
  role: string
  /** The actor in the audit log. */
  name: string
  /** The named token. Null for the admin token. */
  token: { id: string; name: string } | null
  /** The projects that the token is limited to. Null: none. */
  projects: string[] | null
  /** The id of the session. Null for a bearer token. */
  id: string | null
  /** The value of the header X-Svc-Csrf, which changes with the session need. */
  csrf: string | null
  /** When the session ends. */
  expiresAt: Instant | null
  /** Until when requests are accepted that ask for the token again. Null: without an end, or no session. */
  provenUntil: Instant | null
  /** Whether requests that ask for the token again are refused to the session now. */
  needsProof: boolean
  /** Whether the server has nodes, or machines may become nodes. */
  fleet: boolean
}
