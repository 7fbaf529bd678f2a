import type { AccessToken, NewToken, TokenList } from '../../../model/access.js'
import { newTokenFields, rotateFields, tokenFields } from '../../tokens.js'
import { changeTokenFields, loginFields, proveFields, resetTokenFields, ticketFields } from '../../auth.js'
import { codeFields } from '../../second-factor.js'
import { answer, type Operations } from '../operation.js'
import type { ListedSession } from '../../../model/session.js'
import {
  accessReport,
  accessToken,
  builtInToken,
  listedSession,
  listedToken,
  signedIn,
  tokenHolder
} from '../records/access.js'
import { done, success } from '../records/common.js'
import { described, instant, list, nullableInstant, optional, record, text } from '../schema.js'

interface LoginAnswer {
  success: true
  message: string
  session?: { id: string; expiresAt: string; csrf: string }
}
const begun = record<NonNullable<LoginAnswer['session']>>({
  id: text('ses_1a2b3c4d5e6f7a8b'),
  expiresAt: instant,
  csrf: text('b6589fc6ab0dc82c')
})

const expiring = record<{ success: true; ticket: string; expiresAt: string }>({
  success,
  ticket: text('4f1c…'),
  expiresAt: instant
})

const newToken = record<NewToken>({
  success,
  token: described('The secret', text('svc_abcdefgh_…')),
  record: accessToken
})
const changedToken = record<{ success: true; record: AccessToken }>({ success, record: accessToken })

const tokenTexts = {
  name: 'Name of the token, unique whatever the case of its letters',
  role: 'Rights of the token',
  projectIds: 'The projects that the token is limited to. Null: none',
  allowedIps: 'Addresses and CIDR blocks that may use the token. Empty: all',
  showScripts: 'Whether a viewer or deployer may read the scripts of its projects'
}

/** Login, browser sessions, tokens and tickets. */
export const accessOperations: Operations = {
  'POST /api/auth/login': {
    summary: 'Check a token or begin a browser session',
    description:
      'With `session: true`, the response sets a session cookie and contains `session`. With `remember: true`, the browser keeps the cookie after it is closed.',
    body: loginFields,
    fields: {
      token: 'The admin token, or a named one',
      code: 'A code of the authenticator or a recovery code, for a token with a second factor',
      session: 'Whether to begin a browser session',
      remember: 'Whether the browser keeps the session after it is closed'
    },
    answers: answer(
      'The token is valid',
      record<LoginAnswer>({ success, message: text('The token is valid'), session: optional(begun) }),
      {
        'Set-Cookie': 'The session cookie. Only sent if a session begins.'
      }
    ),
    errors: [
      'wrong_token',
      'code_required',
      'wrong_code',
      'code_locked',
      'variables_key',
      'token_expired',
      'token_revoked',
      'address_not_allowed',
      'too_many_failures',
      'locked_out'
    ]
  },
  'GET /api/auth/session': {
    summary: 'Get the caller and the CSRF value of its session',
    answers: answer('The caller', signedIn)
  },
  'DELETE /api/auth/session': {
    summary: 'End the current browser session',
    description: 'Succeeds without effect if the request has no session. A bearer token stays valid.',
    answers: answer('The session has ended', done, { 'Set-Cookie': 'Removes the session cookie.' })
  },
  'GET /api/tokens': {
    summary: 'List the named tokens and the built-in ones',
    answers: answer('The tokens', record<TokenList>({ items: list(listedToken), builtIn: list(builtInToken) }))
  },
  'GET /api/access/report': {
    summary: 'List which tokens can deploy where',
    description:
      'Tokens that have ended are left out. The deploy token of a project, the global one and the admin token may deploy, too; they do not expire.',
    answers: answer('The report', accessReport)
  },
  'POST /api/tokens': {
    summary: 'Create a named token',
    description:
      'The answer contains the secret, which the server does not store. A token expires after 90 days, or at `expiresAt`, which the setting `token_max_days` limits.',
    body: newTokenFields,
    fields: { ...tokenTexts, expiresAt: 'When the token expires. Default: 90 days from now' },
    answers: answer('The token was created', newToken),
    errors: ['invalid_field', 'name_taken', 'too_many_tokens']
  },
  'GET /api/tokens/self': {
    summary: 'Get the named token of the request',
    answers: answer('The token', accessToken),
    errors: ['not_found']
  },
  'PATCH /api/tokens/:id': {
    summary: 'Change the name, rights or end of a named token',
    description: 'Fields that are absent keep their values. Sessions and streams of the token end.',
    body: tokenFields,
    fields: { ...tokenTexts, expiresAt: 'When the token expires' },
    answers: answer('The token was changed', changedToken),
    errors: ['invalid_field', 'not_found', 'name_taken', 'already_revoked', 'last_admin']
  },
  'POST /api/tokens/:id/rotate': {
    summary: 'Replace the secret of a named token',
    description: 'The earlier secret stays valid for `overlapSeconds`. Sessions and streams of the token end.',
    body: rotateFields,
    fields: {
      overlapSeconds: 'How long the earlier secret stays valid. Default: 0',
      expiresAt: 'When the new secret expires. Default: as long from now as the earlier one was valid'
    },
    answers: answer('The token has a new secret', newToken),
    errors: ['invalid_field', 'not_found', 'already_revoked', 'last_admin']
  },
  'DELETE /api/tokens/:id': {
    summary: 'Revoke a named token',
    description: 'Sessions and streams of the token end. The token stays in the list for 90 days.',
    answers: answer('The token was revoked', changedToken),
    errors: ['not_found', 'already_revoked', 'last_admin']
  },
  'POST /api/auth/prove': {
    summary: 'Enter the token of the session again',
    description:
      'Requests that answered `proof_required` are then accepted for the time of the setting `proof_minutes`.',
    body: proveFields,
    fields: { token: 'The token with which the session began', code: 'A code, for a token with a second factor' },
    answers: answer(
      'The session is proven',
      record<{ success: true; provenUntil: string | null }>({ success, provenUntil: nullableInstant })
    ),
    errors: ['wrong_token', 'code_required', 'wrong_code', 'code_locked', 'variables_key', 'no_session']
  },
  'POST /api/auth/second-factor': {
    summary: 'Begin to add a second factor to the own token',
    description:
      'Only in a browser session, not with the token as a bearer. The token needs a code only after the confirmation. Then it opens browser sessions and nothing else.',
    answers: answer(
      'What an authenticator needs. It is shown once',
      record<{ success: true; secret: string; link: string }>({
        success,
        secret: text('JBSWY3DPEHPK3PXP'),
        link: text('otpauth://totp/svc:ana?secret=JBSWY3DPEHPK3PXP')
      })
    ),
    errors: ['no_named_token', 'no_session', 'factor_enrolled', 'variables_key']
  },
  'POST /api/auth/second-factor/confirm': {
    summary: 'Confirm a second factor by its first code',
    description: 'The other sessions of the token end, and what was opened with it as a bearer.',
    body: codeFields,
    fields: { code: 'A code of the authenticator' },
    answers: answer(
      'The second factor is in force',
      record<{ success: true; recoveryCodes: string[] }>({ success, recoveryCodes: list(text('abcd-efgh-ijkl-mnop')) })
    ),
    errors: [
      'no_named_token',
      'no_session',
      'factor_enrolled',
      'factor_not_begun',
      'wrong_code',
      'code_locked',
      'variables_key'
    ]
  },
  'DELETE /api/auth/second-factor': {
    summary: 'Remove the second factor of the own token',
    body: codeFields,
    fields: { code: 'A code of the authenticator or a recovery code' },
    answers: answer('The second factor was removed', done),
    errors: ['no_named_token', 'not_found', 'wrong_code', 'code_locked', 'variables_key']
  },
  'DELETE /api/tokens/:id/second-factor': {
    summary: 'Remove the second factor of a named token',
    description: 'For a user who lost the authenticator and the recovery codes.',
    answers: answer('The second factor was removed', done),
    errors: ['not_found']
  },
  'GET /api/sessions': {
    summary: 'List browser sessions, most recently used first',
    answers: answer('The sessions', record<{ sessions: ListedSession[] }>({ sessions: list(listedSession) }))
  },
  'DELETE /api/sessions/:id': {
    summary: 'End a browser session',
    description: 'Closes the streams and terminals of the session immediately.',
    answers: answer('The session has ended', done),
    errors: ['not_found']
  },
  'GET /api/auth/whoami': {
    summary: 'Get the role and the project of the token',
    answers: answer('The role of the token', tokenHolder)
  },
  'POST /api/auth/reset': {
    summary: 'Reset the admin token without the old one',
    description:
      'Requests must come through the Unix socket in the data directory. `svc admin reset-password` uses this route.',
    body: resetTokenFields,
    fields: { newToken: 'The new admin token' },
    answers: answer('The token was replaced', done)
  },
  'POST /api/settings/token': {
    summary: 'Change the admin token',
    body: changeTokenFields,
    fields: { oldToken: 'The current admin token', newToken: 'The new admin token' },
    answers: answer('The token was changed', done),
    errors: ['wrong_token']
  },
  'POST /api/tickets': {
    summary: 'Create a ticket',
    description:
      'A ticket is passed in the query of one request instead of a token, for clients that cannot set headers. It expires after 30 seconds.',
    body: ticketFields,
    fields: { purpose: 'The kind of request that the ticket is for' },
    answers: answer('The ticket', expiring),
    errors: ['too_many_tickets', 'proof_required']
  }
}
