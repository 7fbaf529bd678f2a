import { changeTokenFields, loginFields, resetTokenFields, ticketFields } from '../../auth.js'
import { answer, type Operations } from '../operation.js'
import { done, success, tokenHolder } from '../records.js'
import { instant, record, text } from '../schema.js'

const expiring = record<{ success: true; ticket: string; expiresAt: string }>({ success, ticket: text('4f1c…'), expiresAt: instant })

export const accessOperations: Operations = {
  'POST /api/auth/login': {
    summary: 'Check the admin token',
    body: loginFields,
    answers: answer('The token is valid', done),
    errors: ['wrong_token', 'too_many_failures', 'locked_out']
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
