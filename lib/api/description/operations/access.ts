import { changeTokenFields, loginFields, resetTokenFields, ticketFields } from '../../auth.js'
import { answer, type Operations } from '../operation.js'
import type { ListedSession } from '../../../model/session.js'
import { done, listedSession, signedIn, success, tokenHolder } from '../records.js'
import { instant, list, optional, record, text } from '../schema.js'

interface LoginAnswer {
  success: true
  message: string
  session?: { id: string; expiresAt: string; csrf: string }
}
const begun = record<NonNullable<LoginAnswer['session']>>({ id: text('ses_1a2b3c4d5e6f7a8b'), expiresAt: instant, csrf: text('b6589fc6ab0dc82c') })

const expiring = record<{ success: true; ticket: string; expiresAt: string }>({ success, ticket: text('4f1c…'), expiresAt: instant })

export const accessOperations: Operations = {
  'POST /api/auth/login': {
    summary: 'Check the admin token, or begin a browser session',
    description: 'With `session: true` the answer sets a cookie and has `session`. `remember` keeps the cookie when the browser is closed.',
    body: loginFields,
    answers: answer('The token is valid', record<LoginAnswer>({ success, message: text('The token is valid'), session: optional(begun) }), {
      'Set-Cookie': 'Of a session: its cookie.'
    }),
    errors: ['wrong_token', 'too_many_failures', 'locked_out']
  },
  'GET /api/auth/session': { summary: 'Get the caller, and what its session needs to make changes', answers: answer('The caller', signedIn) },
  'DELETE /api/auth/session': { summary: 'Sign the browser out', answers: answer('The session was ended', done, { 'Set-Cookie': 'Removes the cookie.' }) },
  'GET /api/sessions': {
    summary: 'List browser sessions, the most recently used first',
    answers: answer('The sessions', record<{ sessions: ListedSession[] }>({ sessions: list(listedSession) }))
  },
  'DELETE /api/sessions/:id': {
    summary: 'End a browser session',
    description: 'Its streams and terminals end at once.',
    answers: answer('The session was ended', done),
    errors: ['not_found']
  },
  'GET /api/auth/whoami': { summary: 'Get what the token is for', answers: answer('The holder', tokenHolder) },
  'POST /api/auth/reset': {
    summary: 'Replace the admin token without knowing it',
    description: 'Only through the socket in the data directory: `svc admin reset-password` uses it.',
    body: resetTokenFields,
    answers: answer('The token was replaced', done)
  },
  'POST /api/settings/token': {
    summary: 'Change the admin token',
    body: changeTokenFields,
    answers: answer('The token was changed', done),
    errors: ['wrong_token']
  },
  'POST /api/tickets': {
    summary: 'Create a ticket',
    description: 'A ticket replaces the token in the query of one request, for clients that cannot set headers. It expires after 30 seconds.',
    body: ticketFields,
    answers: answer('The ticket', expiring),
    errors: ['too_many_tickets']
  }
}
