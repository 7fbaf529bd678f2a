import type { IncomingHttpHeaders } from 'node:http'
import { type Clock, elapsedOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { oneLine } from '../base/text.js'
import { Refusal, notFound } from '../base/errors.js'
import { cookiesOf, setCookie } from '../http/core/headers.js'
import type { AuditEvent, Actor } from '../model/audit.js'
import type { BrowserSession } from '../model/access.js'
import type { Store, Transaction } from '../core/store/database.js'
import {
  deleteSession,
  enrolledTokens,
  findSession,
  findSessionByDigest,
  insertSession,
  listSessions,
  type StoredSession,
  updateSession
} from '../core/store/tables/access.js'
import { createHash, createHmac } from 'node:crypto'
import type { SessionKey } from './session-key.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** A session without a request for this long ends. */
const idleMs = 12 * hourMs
/** Maximum lifetime of a session, for browsers that remember it and for those that do not. */
const longestMs = { remembered: 7 * 24 * hourMs, passing: 24 * hourMs }
/** Minimum time between two updates of `lastUsedAt`. */
const touchMs = minuteMs
/** A session that begins later than this from now was created with a wrong clock. */
const aheadMs = 24 * hourMs
/** Maximum number of sessions. Above it, the least recently used one ends. */
const maxSessions = 100
const maxUserAgentLength = 300
const isSecret = /^[\w-]{43}$/

/** The browser session of a request. */
export interface FoundSession {
  id: string
  expiresAt: string
  /** The named token with which the session began; null: the admin token. */
  tokenId: string | null
  /** When its user gave the secret last; null: unknown. */
  provenAt: string | null
  /** Returns the value that the header X-Svc-Csrf must have. */
  csrf(): string
}

/** The parts of a request that a login needs. */
export interface SignInRequest {
  headers: IncomingHttpHeaders
  /** Whether the client's connection is encrypted. */
  isSecure: boolean
  actor: Actor
}

/** The secret with which a session begins. `token` is the named token; null: the admin token. */
export interface SessionStart {
  remember: boolean
  token: { id: string; digest: string } | null
  /** Whether a code of the second factor of the token was checked. */
  hasCode: boolean
}

export interface BegunSession {
  id: string
  expiresAt: string
  csrf: string
  /** The value of the header Set-Cookie. */
  cookie: string
}

interface Needs {
  store: Pick<Store, 'get' | 'all' | 'write'>
  clock: Clock
  ids: Ids
  key: SessionKey
  admin: { current(): string }
  /** Returns the digests of the secrets of a named token that are valid. */
  named: { validDigests(id: string): readonly string[] }
  /** The path prefix of the server, as returned by `normaliseBase`. */
  base: string
  audit: { within(tx: Transaction, event: AuditEvent): void }
}

interface CookieNames {
  plain: string
  secure: string
}

/**
 * The browser sessions of the panel. A browser has a random secret in a cookie. The store contains a keyed digest of
 * the secret, and a mark of the token with which the session began. If the token changes, even while the server is
 * stopped, older sessions become invalid.
 */
export class Sessions {
  readonly #store: Needs['store']
  readonly #clock: Needs['clock']
  readonly #ids: Needs['ids']
  readonly #key: Needs['key']
  readonly #admin: Needs['admin']
  readonly #named: Needs['named']
  readonly #base: Needs['base']
  readonly #audit: Needs['audit']
  readonly #touchedAtMs = new Map<string, number>()
  /** While the token changes: the session that stays valid, with its earlier mark. */
  #passing: { id: string; tokenMark: string } | null = null

  constructor(needs: Needs) {
    this.#store = needs.store
    this.#clock = needs.clock
    this.#ids = needs.ids
    this.#key = needs.key
    this.#admin = needs.admin
    this.#named = needs.named
    this.#base = needs.base
    this.#audit = needs.audit
  }

  /**
   * Begins a session for a client that has sent the admin token or a named one. `actor` is the holder of the token.
   * Audited as `auth.login`.
   */
  async begin(
    { headers, isSecure, actor }: SignInRequest,
    { remember, token, hasCode }: SessionStart
  ): Promise<BegunSession> {
    const bytes = await this.#key.ensure(() => this.#store.write(tx => removeAll(tx)))
    const nowMs = this.#clock.now()
    const lifeMs = remember ? longestMs.remembered : longestMs.passing
    const secret = this.#ids.token()
    const now = new Date(nowMs).toISOString()
    const session: StoredSession = {
      id: this.#ids.id('ses_'),
      digest: digestOf(bytes, secret),
      tokenMark: tokenMarkOf(bytes, token?.digest ?? this.#admin.current()),
      tokenId: token?.id ?? null,
      provenAt: now,
      createdAt: now,
      lastUsedAt: now,
      expiresAt: new Date(nowMs + lifeMs).toISOString(),
      remember,
      ip: actor.ip,
      userAgent: agentOf(headers)
    }
    const replaced = this.#search(headers)?.row.id
    await this.#store.write(tx => {
      // A second factor that was added since the token was checked: this sign-in must not outlive the others.
      if (token !== null && !hasCode && enrolledTokens(tx).has(token.id)) throw codeRequired()
      this.#prune(tx, maxSessions - 1)
      if (replaced !== undefined) deleteSession(tx, replaced)
      insertSession(tx, session)
      this.#audit.within(tx, {
        action: 'auth.login',
        actor,
        target: session.id,
        detail: 'session'
      })
    })
    const { id, expiresAt } = session
    return {
      id,
      expiresAt,
      csrf: csrfOf(secret),
      cookie: this.#cookieOf(secret, isSecure, remember ? lifeMs / 1000 : null)
    }
  }

  /** Returns the session of the request's cookie, or null if there is none, it has ended, or its secret is unknown. */
  find(headers: IncomingHttpHeaders): FoundSession | null {
    const found = this.#search(headers)
    if (found === null) return null
    const {
      row: { id, expiresAt, tokenId, provenAt },
      secret
    } = found
    this.#touch(found.row)
    return { id, expiresAt, tokenId, provenAt, csrf: () => csrfOf(secret) }
  }

  /** Whether the session of a request that lasts has not ended. Such a request uses it. */
  isAlive(id: string): boolean {
    const row = findSession(this.#store, id)
    if (row === undefined || !this.#createJudge()(row)) return false
    this.#touch(row)
    return true
  }

  /** Whether the request has a cookie of this server. */
  hasCookie(headers: IncomingHttpHeaders): boolean {
    return this.#secretsOf(headers).length > 0
  }

  /** Returns the sessions that have not ended. */
  list(): BrowserSession[] {
    return listSessions(this.#store)
      .filter(this.#createJudge())
      .map(({ digest: _, tokenMark: __, ...session }) => session)
  }

  /** Ends one session. Refuses: 404. Audited as `session.revoke`, or as `auth.logout` if it is the caller's own. */
  async end(id: string, { actor, own }: { actor: Actor; own: boolean }): Promise<void> {
    const isThere = await this.#store.write(tx => {
      if (findSession(tx, id) === undefined) return false
      // Before its own session has ended, the actor is accepted.
      this.#audit.within(tx, { action: own ? 'auth.logout' : 'session.revoke', actor, target: id })
      return deleteSession(tx, id)
    })
    if (!isThere) throw notFound('Session', id)
  }

  /** Records that the user of a session gave its secret again. Returns the time. */
  async prove(id: string): Promise<string> {
    const provenAt = new Date(this.#clock.now()).toISOString()
    await this.#store.write(tx => void updateSession(tx, id, { provenAt }))
    return provenAt
  }

  /** Removes the sessions of a named token except one, and returns how many. */
  removeOf(tx: Transaction, tokenId: string, kept: string): number {
    return removeAll(tx, session => session.tokenId === tokenId && session.id !== kept)
  }

  /** Ends the sessions that began with a named token. */
  async endOf(tokenId: string): Promise<void> {
    const ids = listSessions(this.#store).flatMap(session => (session.tokenId === tokenId ? session.id : []))
    if (ids.length === 0) return
    await this.#store.write(tx => void ids.forEach(id => deleteSession(tx, id)))
  }

  /** Runs `change`, which changes the admin token. Every session of it ends except the one of these headers. */
  async withNewToken(headers: IncomingHttpHeaders, change: () => Promise<void>): Promise<void> {
    const own = this.#search(headers)
    const found = own?.row.tokenId === null ? own : null
    if (found !== null) this.#passing = { id: found.row.id, tokenMark: found.row.tokenMark }
    try {
      await change()
      await this.#store.write(tx => {
        if (found !== null)
          updateSession(tx, found.row.id, {
            tokenMark: tokenMarkOf(this.#key.current() as Buffer, this.#admin.current())
          })
        removeAll(tx, ({ id, tokenId }) => tokenId === null && id !== found?.row.id)
      })
    } finally {
      this.#passing = null
    }
  }

  /** Returns the Set-Cookie value that removes the cookie, or null if there cannot be a cookie. */
  removal(isSecure: boolean): string | null {
    return this.#key.current() === null ? null : this.#cookieOf('', isSecure, 0)
  }

  #cookieNames(): CookieNames | null {
    const bytes = this.#key.current()
    if (bytes === null) return null
    const plain = `svc_session_${instanceName(bytes)}`
    // Browsers accept this prefix only with Secure over TLS, so an unencrypted response cannot replace the cookie.
    return { plain, secure: `__Secure-${plain}` }
  }

  #secretsOf({ cookie }: IncomingHttpHeaders): string[] {
    if (cookie === undefined) return []
    const names = this.#cookieNames()
    return names === null ? [] : cookiesOf(cookie, [names.secure, names.plain]).filter(secret => isSecret.test(secret))
  }

  /** Returns a function that checks whether a session is valid, by its times and its mark of a token. */
  #createJudge(): (session: StoredSession) => boolean {
    const nowMs = this.#clock.now()
    const bytes = this.#key.current()
    const mark = bytes === null ? null : tokenMarkOf(bytes, this.#admin.current())
    const isMarked = ({ id, tokenId, tokenMark }: StoredSession): boolean => {
      if (bytes === null) return false
      if (tokenId !== null) {
        return this.#named.validDigests(tokenId).some(digest => tokenMark === tokenMarkOf(bytes, digest))
      }
      return tokenMark === mark || (id === this.#passing?.id && tokenMark === this.#passing.tokenMark)
    }
    return session => {
      const { createdAt, lastUsedAt, expiresAt } = session
      if (!isMarked(session)) return false
      return (
        nowMs < Date.parse(expiresAt) &&
        nowMs - Date.parse(lastUsedAt) < idleMs &&
        Date.parse(createdAt) - nowMs < aheadMs
      )
    }
  }

  #search(headers: IncomingHttpHeaders): { row: StoredSession; secret: string } | null {
    const bytes = this.#key.current()
    const secrets = this.#secretsOf(headers)
    if (bytes === null || secrets.length === 0) return null
    const isAlive = this.#createJudge()
    for (const secret of secrets) {
      const row = findSessionByDigest(this.#store, digestOf(bytes, secret))
      if (row !== undefined && isAlive(row)) return { row, secret }
    }
    return null
  }

  /** Removes sessions that have ended, and the least recently used ones above the limit. */
  #prune(tx: Transaction, room: number): void {
    const isAlive = this.#createJudge()
    const sessions = listSessions(tx)
    const kept = new Set(sessions.filter(isAlive).slice(0, room))
    for (const session of sessions) if (!kept.has(session)) deleteSession(tx, session.id)
  }

  /** Updates `lastUsedAt`. A failure does not refuse the request: the store reports it elsewhere. */
  #touch(row: StoredSession): void {
    const nowMs = this.#clock.now()
    const atMs = elapsedOf(this.#clock)
    if (nowMs - Date.parse(row.lastUsedAt) < touchMs || atMs - (this.#touchedAtMs.get(row.id) ?? -Infinity) < touchMs)
      return
    if (this.#touchedAtMs.size > maxSessions) this.#touchedAtMs.clear()
    this.#touchedAtMs.set(row.id, atMs)
    void this.#store
      .write(tx => {
        updateSession(tx, row.id, { lastUsedAt: new Date(nowMs).toISOString() })
        this.#prune(tx, maxSessions)
      })
      .catch(() => {})
  }

  #cookieOf(value: string, isSecure: boolean, maxAgeSeconds: number | null): string {
    const names = this.#cookieNames() as CookieNames
    return setCookie({
      name: isSecure ? names.secure : names.plain,
      value,
      path: `${this.#base}/`,
      isSecure,
      maxAgeSeconds
    })
  }
}

/** Returns the 403 for a change with a session cookie but without the session's CSRF token. */
export function wrongCsrf(): Refusal {
  const sentence =
    'A change with a session cookie requires the header X-Svc-Csrf of that session (GET /api/auth/session)'
  return new Refusal('forbidden', 'wrong_csrf', sentence)
}

/** Returns the 401 for a sign-in without a code of the second factor. */
export function codeRequired(): Refusal {
  return new Refusal('unauthorized', 'code_required', 'A code of your authenticator is needed', { field: 'code' })
}

function removeAll(tx: Transaction, ends: (session: StoredSession) => boolean = () => true): number {
  const gone = listSessions(tx).filter(ends)
  for (const { id } of gone) deleteSession(tx, id)
  return gone.length
}

function agentOf(headers: IncomingHttpHeaders): string | null {
  const agent = headers['user-agent']
  return agent === undefined || agent === '' ? null : oneLine(agent).slice(0, maxUserAgentLength)
}

const nameLength = 8

/** Returns a name that distinguishes this data directory from others on the same host, because cookies ignore ports. */
export function instanceName(key: Buffer): string {
  return createHash('sha256').update('cookie').update(key).digest('hex').slice(0, nameLength)
}

/** Returns the digest that identifies a session's secret in the store. */
export function digestOf(key: Buffer, secret: string): string {
  return createHmac('sha256', key).update(`session ${secret}`).digest('base64url')
}

/** Returns the mark of the admin token in a session. If the token changes, the session becomes invalid. */
export function tokenMarkOf(key: Buffer, adminToken: string): string {
  return createHmac('sha256', key).update(`token ${adminToken}`).digest('base64url')
}

/** Returns the CSRF token of a session. Only pages of the session can read it. */
export function csrfOf(secret: string): string {
  return createHmac('sha256', secret).update('csrf').digest('base64url')
}
