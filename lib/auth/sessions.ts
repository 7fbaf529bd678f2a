import type { IncomingHttpHeaders } from 'node:http'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import { oneLine } from '../base/one-line.js'
import { Refusal, notFound } from '../base/refusal.js'
import { cookiesOf, setCookie } from '../http/cookie.js'
import type { AuditEvent, Actor } from '../model/audit.js'
import type { BrowserSession } from '../model/session.js'
import type { Store, Transaction } from '../store/database.js'
import { deleteSession, findSessionByDigest, insertSession, listSessions, updateSession } from '../store/tables/sessions.js'
import type { StoredSession } from '../store/tables/sessions.js'
import { csrfOf, digestOf, instanceName, tokenMarkOf } from './session-key.js'
import type { SessionKey } from './session-key.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Without a request for this long, a session ends. */
const idleMs = 12 * hourMs
/** The longest life of a session, for a browser that is to keep it and for one that is not. */
const longestMs = { remembered: 7 * 24 * hourMs, passing: 24 * hourMs }
/** `lastUsedAt` is written at most this often. */
const touchMs = minuteMs
/** A session that began later than this from now is from a clock that was wrong. */
const aheadMs = 24 * hourMs
/** The least recently used session ends when there are more. */
const maxSessions = 100
const maxUserAgentLength = 300
const isSecret = /^[\w-]{43}$/

/** The session of a request. */
export interface FoundSession {
  id: string
  expiresAt: string
  /** What the header X-Svc-Csrf must be. */
  csrf(): string
  /** Aborted when the session ends: streams of the session end with it. */
  ended(): AbortSignal
}

/** What a sign-in needs of its request. */
export interface SignInRequest {
  headers: IncomingHttpHeaders
  /** Whether the client's connection is encrypted. */
  isSecure: boolean
  actor: Actor
}

/** A session that has begun. */
export interface BegunSession {
  id: string
  expiresAt: string
  csrf: string
  /** The value of Set-Cookie. */
  cookie: string
}

export interface Sessions {
  /** Begins a session for somebody who has shown the admin token. Audited as `auth.login`. */
  begin(request: SignInRequest, options: { remember: boolean }): Promise<BegunSession>
  /** The session of the request's cookie, or null: there is none, it has ended, or its secret is unknown. */
  find(headers: IncomingHttpHeaders): FoundSession | null
  /** Whether the request has a cookie of this server at all. */
  hasCookie(headers: IncomingHttpHeaders): boolean
  list(): BrowserSession[]
  /** Ends one. Refuses: 404. Audited as `session.revoke`, or `auth.logout` if it is `own`. */
  end(id: string, options: { actor: Actor; own: boolean }): Promise<void>
  /** Changes the admin token by `change`: every session ends but the one of these headers. */
  withNewToken(headers: IncomingHttpHeaders, change: () => Promise<void>): Promise<void>
  /** The values of Set-Cookie that remove the cookie from the browser. */
  removal(isSecure: boolean): string | null
}

interface Needs {
  store: Pick<Store, 'get' | 'all' | 'write'>
  clock: Clock
  ids: Ids
  key: SessionKey
  admin: { current(): string }
  /** The prefix of the server, as `normaliseBase` gives it. */
  base: string
  audit: { within(tx: Transaction, event: AuditEvent): void }
}

/**
 * The browser sessions of the panel. A browser holds a random secret in a cookie. The store holds its keyed digest, and
 * a mark of the admin token: however the token changes, while the server runs or not, sessions from before are void.
 */
export function createSessions({ store, clock, ids, key, admin, base, audit }: Needs): Sessions {
  /** Of sessions whose requests last: aborted when the session ends. */
  const lives = new Map<string, AbortController>()
  const touchedAtMs = new Map<string, number>()
  /** While the token changes: the session that stays, and its mark from before. */
  let passing: { id: string; tokenMark: string } | null = null

  const cookieNames = (): { plain: string; secure: string } | null => {
    const bytes = key.current()
    if (bytes === null) return null
    const plain = `svc_session_${instanceName(bytes)}`
    // Browsers accept this prefix only with Secure and over TLS, so an unencrypted answer cannot replace the cookie.
    return { plain, secure: `__Secure-${plain}` }
  }

  function secretsOf({ cookie }: IncomingHttpHeaders): string[] {
    if (cookie === undefined) return []
    const names = cookieNames()
    return names === null ? [] : cookiesOf(cookie, [names.secure, names.plain]).filter(secret => isSecret.test(secret))
  }

  /** Whether a session may be used, by its times and by the admin token. */
  function createJudge(): (session: StoredSession) => boolean {
    const nowMs = clock.now()
    const bytes = key.current()
    const mark = bytes === null ? null : tokenMarkOf(bytes, admin.current())
    return ({ id, tokenMark, createdAt, lastUsedAt, expiresAt }) => {
      if (tokenMark !== mark && !(id === passing?.id && tokenMark === passing.tokenMark)) return false
      return nowMs < Date.parse(expiresAt) && nowMs - Date.parse(lastUsedAt) < idleMs && Date.parse(createdAt) - nowMs < aheadMs
    }
  }

  function search(headers: IncomingHttpHeaders): { row: StoredSession; secret: string } | null {
    const bytes = key.current()
    const secrets = secretsOf(headers)
    if (bytes === null || secrets.length === 0) return null
    const isAlive = createJudge()
    for (const secret of secrets) {
      const row = findSessionByDigest(store, digestOf(bytes, secret))
      if (row !== undefined && isAlive(row)) return { row, secret }
    }
    return null
  }

  function forget(id: string): void {
    lives.get(id)?.abort()
    lives.delete(id)
    touchedAtMs.delete(id)
  }

  /** Removes sessions that have ended, and the least recently used ones above the limit. */
  function prune(tx: Transaction, room: number): string[] {
    const isAlive = createJudge()
    const sessions = listSessions(tx)
    const kept = new Set(sessions.filter(isAlive).slice(0, room))
    const gone = sessions.filter(session => !kept.has(session)).map(({ id }) => id)
    for (const id of gone) deleteSession(tx, id)
    return gone
  }

  function removeAll(tx: Transaction, except?: string): string[] {
    const gone = listSessions(tx).map(({ id }) => id).filter(id => id !== except)
    for (const id of gone) deleteSession(tx, id)
    return gone
  }

  /** A failure is no reason to refuse the request: the store reports it to others. */
  function touch(row: StoredSession): void {
    const nowMs = clock.now()
    const atMs = elapsedOf(clock)
    if (nowMs - Date.parse(row.lastUsedAt) < touchMs || atMs - (touchedAtMs.get(row.id) ?? -Infinity) < touchMs) return
    touchedAtMs.set(row.id, atMs)
    void store.write(tx => {
      updateSession(tx, row.id, { lastUsedAt: new Date(nowMs).toISOString() })
      return prune(tx, maxSessions)
    }).then(gone => gone.forEach(forget), () => {})
  }

  function lifeOf(id: string): AbortSignal {
    let life = lives.get(id)
    if (life === undefined) lives.set(id, (life = new AbortController()))
    return life.signal
  }

  const cookieOf = (value: string, isSecure: boolean, maxAgeSeconds: number | null): string => {
    const names = cookieNames() as { plain: string; secure: string }
    return setCookie({ name: isSecure ? names.secure : names.plain, value, path: `${base}/`, isSecure, maxAgeSeconds })
  }

  return {
    async begin({ headers, isSecure, actor }, { remember }) {
      const bytes = await key.ensure(() => store.write(tx => removeAll(tx)).then(gone => gone.forEach(forget)))
      const nowMs = clock.now()
      const lifeMs = remember ? longestMs.remembered : longestMs.passing
      const secret = ids.token()
      const now = new Date(nowMs).toISOString()
      const session: StoredSession = {
        id: ids.id('ses_'), digest: digestOf(bytes, secret), tokenMark: tokenMarkOf(bytes, admin.current()),
        createdAt: now, lastUsedAt: now, expiresAt: new Date(nowMs + lifeMs).toISOString(), remember, ip: actor.ip, userAgent: agentOf(headers)
      }
      const replaced = search(headers)?.row.id
      const gone = await store.write(tx => {
        const removed = prune(tx, maxSessions - 1)
        if (replaced !== undefined && deleteSession(tx, replaced)) removed.push(replaced)
        insertSession(tx, session)
        audit.within(tx, { action: 'auth.login', actor: { ...actor, name: 'admin' }, target: session.id, detail: 'session' })
        return removed
      })
      gone.forEach(forget)
      const { id, expiresAt } = session
      return { id, expiresAt, csrf: csrfOf(secret), cookie: cookieOf(secret, isSecure, remember ? lifeMs / 1000 : null) }
    },

    find(headers) {
      const found = search(headers)
      if (found === null) return null
      const { row: { id, expiresAt }, secret } = found
      touch(found.row)
      return { id, expiresAt, csrf: () => csrfOf(secret), ended: () => lifeOf(id) }
    },

    hasCookie: headers => secretsOf(headers).length > 0,

    list: () => listSessions(store).filter(createJudge()).map(({ digest: _, tokenMark: __, ...session }) => session),

    async end(id, { actor, own }) {
      const isThere = await store.write(tx => {
        if (!deleteSession(tx, id)) return false
        audit.within(tx, { action: own ? 'auth.logout' : 'session.revoke', actor, target: id })
        return true
      })
      forget(id)
      if (!isThere) throw notFound('Session', id)
    },

    async withNewToken(headers, change) {
      const found = search(headers)
      if (found !== null) passing = { id: found.row.id, tokenMark: found.row.tokenMark }
      try {
        await change()
        const gone = await store.write(tx => {
          if (found !== null) updateSession(tx, found.row.id, { tokenMark: tokenMarkOf(key.current() as Buffer, admin.current()) })
          return removeAll(tx, found?.row.id)
        })
        gone.forEach(forget)
      } finally {
        passing = null
      }
    },

    removal: isSecure => (key.current() === null ? null : cookieOf('', isSecure, 0))
  }
}

/** Refuses a change with a cookie that does not come from a page of the session. */
export function wrongCsrf(): Refusal {
  const sentence = 'The change was refused: with a session cookie it needs the header X-Svc-Csrf of that session (GET /api/auth/session)'
  return new Refusal('forbidden', 'wrong_csrf', sentence)
}

function agentOf(headers: IncomingHttpHeaders): string | null {
  const agent = headers['user-agent']
  return agent === undefined || agent === '' ? null : oneLine(agent).slice(0, maxUserAgentLength)
}
