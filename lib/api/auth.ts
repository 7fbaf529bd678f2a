import type { Sessions } from '../auth/sessions.js'
import type { Limiter } from '../auth/limiter.js'
import { ticketPurposes } from '../auth/tickets.js'
import type { TicketPurpose } from '../auth/tickets.js'
import { Refusal } from '../base/refusal.js'
import { json } from '../http/route.js'
import type { AuditEvent } from '../model/audit.js'
import type { ListedSession, SignedIn } from '../model/session.js'
import { flag, line, oneOf, optional, readFields } from './fields.js'
import { param } from './route.js'
import type { ApiRequest, Handler } from './route.js'

const maxTokenLength = 4096
const token = line({ max: maxTokenLength })

export const loginFields = { token, session: optional(flag), remember: optional(flag) }
export const changeTokenFields = { oldToken: token, newToken: token }
export const resetTokenFields = { newToken: token }
export const ticketFields = { purpose: oneOf(ticketPurposes) }

export interface AuthNeeds {
  admin: { verify(token: string): boolean; change(newToken: string): Promise<void> }
  limiter: Limiter
  tickets: { issue(purpose: TicketPurpose): { ticket: string; expiresAt: string } }
  sessions: Sessions
  audit: { record(event: AuditEvent): Promise<void> }
}

/** Login, sessions, token change and reset, and tickets (§4.2, §4.7, §4.13, §5). */
export function authHandlers({ admin, limiter, tickets, sessions, audit }: AuthNeeds) {
  const isAdminToken = async (request: ApiRequest, token: string): Promise<boolean> =>
    (await limiter.attempt(request, () => admin.verify(token) || null)) ?? false

  /**
   * `POST /api/auth/login {token, session?, remember?}`. With `session: true` a browser session begins: the answer sets its
   * cookie, and has `session: {id, expiresAt, csrf}`. `remember` lets the browser keep it when it is closed.
   */
  const login: Handler = async request => {
    const { token, session, remember = false } = readFields(await request.json(), loginFields)
    if (!(await isAdminToken(request, token))) {
      throw new Refusal('unauthorized', 'wrong_token', 'The login failed: this is not the admin token')
    }
    if (session === true) {
      const { cookie, ...begun } = await sessions.begin(request, { remember })
      return json({ success: true, message: 'Signed in', session: begun }, 200, { 'set-cookie': cookie })
    }
    await audit.record({ action: 'auth.login', actor: { ...request.actor, name: 'admin' } })
    return json({ success: true, message: 'The token is valid' })
  }

  const changeToken: Handler = async request => {
    const { actor } = request
    const fields = readFields(await request.json(), changeTokenFields)
    if (!(await isAdminToken(request, fields.oldToken))) {
      await audit.record({ action: 'auth.change_token', actor, ok: false })
      throw new Refusal('unauthorized', 'wrong_token', 'The token was not changed: "oldToken" is not the admin token')
    }
    await sessions.withNewToken(request.headers, () => admin.change(fields.newToken))
    await audit.record({ action: 'auth.change_token', actor })
    return json({ success: true, message: 'The admin token was changed' })
  }

  /** For the one who owns the data directory, and so needs no old token: `svc admin reset-password`. */
  const resetToken: Handler = async request => {
    const { newToken } = readFields(await request.json(), resetTokenFields)
    await sessions.withNewToken({}, () => admin.change(newToken))
    await audit.record({ action: 'auth.reset_token', actor: request.actor })
    return json({ success: true, message: 'The admin token was reset' })
  }

  const ticket: Handler = async request => {
    const { purpose } = readFields(await request.json(), ticketFields)
    return json({ success: true, ...tickets.issue(purpose) })
  }

  /** `GET /api/auth/session`: the caller, and what a page with a session needs to make changes. */
  const session: Handler = ({ actor }) => {
    const { role, name } = actor
    const { id = null, expiresAt = null } = actor.session ?? {}
    return json({ role, name, id, csrf: actor.session?.csrf() ?? null, expiresAt } satisfies SignedIn)
  }

  /** `DELETE /api/auth/session`: signs the browser out. A bearer token has no session, and stays valid. */
  const signOut: Handler = async ({ actor, isSecure }) => {
    if (actor.session === undefined) return json({ success: true, message: 'There is no session to end' })
    await sessions.end(actor.session.id, { actor, own: true })
    const cookie = sessions.removal(isSecure)
    return json({ success: true, message: 'Signed out' }, 200, cookie === null ? {} : { 'set-cookie': cookie })
  }

  /** `GET /api/sessions`: `{sessions: ListedSession[]}`, the most recently used first. */
  const list: Handler = ({ actor }) => {
    const listed: ListedSession[] = sessions.list().map(each => ({ ...each, current: each.id === actor.session?.id }))
    return json({ sessions: listed })
  }

  /** `DELETE /api/sessions/:id`: ends a session at once, with its streams and terminals. */
  const revoke: Handler = async request => {
    const id = param(request, 'id')
    await sessions.end(id, { actor: request.actor, own: id === request.actor.session?.id })
    return json({ success: true, message: 'The session was ended' })
  }

  return { login, session, signOut, list, revoke, changeToken, resetToken, ticket }
}
