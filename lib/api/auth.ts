import type { Limiter } from '../auth/limiter.js'
import { ticketPurposes } from '../auth/tickets.js'
import type { TicketPurpose } from '../auth/tickets.js'
import { Refusal } from '../base/refusal.js'
import { json } from '../http/route.js'
import type { AuditEvent } from '../model/audit.js'
import { line, oneOf, readFields } from './fields.js'
import type { ApiRequest, Handler } from './route.js'

const maxTokenLength = 4096
const token = line({ max: maxTokenLength })

export const loginFields = { token }
export const changeTokenFields = { oldToken: token, newToken: token }
export const resetTokenFields = { newToken: token }
export const ticketFields = { purpose: oneOf(ticketPurposes) }

export interface AuthNeeds {
  admin: { verify(token: string): boolean; change(newToken: string): Promise<void> }
  limiter: Limiter
  tickets: { issue(purpose: TicketPurpose): { ticket: string; expiresAt: string } }
  audit: { record(event: AuditEvent): Promise<void> }
}

/** Login, token change and reset, and tickets (§4.2, §4.7, §4.13, §5). */
export function authHandlers({ admin, limiter, tickets, audit }: AuthNeeds) {
  const isAdminToken = async (request: ApiRequest, token: string): Promise<boolean> =>
    (await limiter.attempt(request, () => admin.verify(token) || null)) ?? false

  const login: Handler = async request => {
    const { token } = readFields(await request.json(), loginFields)
    if (!(await isAdminToken(request, token))) {
      throw new Refusal('unauthorized', 'wrong_token', 'The login failed: this is not the admin token')
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
    await admin.change(fields.newToken)
    await audit.record({ action: 'auth.change_token', actor })
    return json({ success: true, message: 'The admin token was changed' })
  }

  /** For the one who owns the data directory, and so needs no old token: `svc admin reset-password`. */
  const resetToken: Handler = async request => {
    const { newToken } = readFields(await request.json(), resetTokenFields)
    await admin.change(newToken)
    await audit.record({ action: 'auth.reset_token', actor: request.actor })
    return json({ success: true, message: 'The admin token was reset' })
  }

  const ticket: Handler = async request => {
    const { purpose } = readFields(await request.json(), ticketFields)
    return json({ success: true, ...tickets.issue(purpose) })
  }

  return { login, changeToken, resetToken, ticket }
}
