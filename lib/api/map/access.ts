import type { SignedDeployment } from '../../projects/signing-keys.js'
import type { SignersFile, SigningKey } from '../../model/statement.js'
import type { revokeKeyFields, trustFields } from '../settings.js'
import type {
  AccessReport,
  AccessToken,
  ListedSession,
  NewToken,
  SignedIn,
  TokenHolder,
  LocalLogin,
  TokenList
} from '../../model/access.js'
import type { Instant } from '../../model/scalars.js'
import type {
  changeTokenFields,
  codeFields,
  loginFields,
  newTokenFields,
  proveFields,
  removalFields,
  resetTokenFields,
  rotateFields,
  ticketFields,
  tokenFields
} from '../auth.js'

/** What a sign-in answers. `session` only if it begins one. */
export interface LoginAnswer {
  success: true
  message: string
  session?: { id: string; expiresAt: Instant; csrf: string }
}

/** Login, browser sessions, tokens and tickets. */
export interface AccessRoutes {
  /**
   * Check a token or begin a browser session.
   *
   * With `session: true`, the response sets a session cookie and contains `session`. With `remember: true`, the browser
   * keeps the cookie after it is closed.
   * @errors wrong_token code_required wrong_code code_locked variables_key token_expired token_revoked
   * address_not_allowed too_many_failures locked_out
   */
  'POST /api/auth/login': {
    body: typeof loginFields
    /** The token is valid. @header Set-Cookie The session cookie. Only sent if a session begins. */
    answer: LoginAnswer
  }
  /** Get the caller and the CSRF value of its session. */
  'GET /api/auth/session': {
    /** The caller. */
    answer: SignedIn
  }
  /**
   * End the current browser session.
   *
   * Succeeds without effect if the request has no session. A bearer token stays valid.
   */
  'DELETE /api/auth/session': {
    /** The session has ended. @header Set-Cookie Removes the session cookie. */
    answer: { success: true; message: string }
  }
  /** List the named tokens and the built-in ones. */
  'GET /api/tokens': {
    /** The tokens. */
    answer: TokenList
  }
  /**
   * List which tokens can deploy where.
   *
   * Tokens that have ended are left out. The deploy token of a project and the global one may upload, and the admin token
   * may roll back; they do not expire.
   */
  'GET /api/access/report': {
    /** The report. */
    answer: AccessReport
  }
  /**
   * Create a named token.
   *
   * The answer contains the secret, which the server does not store. A token expires after 90 days, or at `expiresAt`,
   * which the setting `token_max_days` limits.
   * @errors invalid_field name_taken too_many_tokens
   */
  'POST /api/tokens': {
    body: typeof newTokenFields
    /** The token was created. */
    answer: NewToken
  }
  /**
   * List the keys that may sign releases.
   *
   * If the server was started with `--require-signatures`, `file` has the keys of its file `keys/allowed_signers`: then only they
   * count.
   */
  'GET /api/signing-keys': {
    /** The keys, by name. */
    answer: { items: SigningKey[]; file: SignersFile | null }
  }
  /**
   * Trust a key that signs releases.
   *
   * A name that looks like that of another key is refused: people tell keys apart by their names.
   * @errors invalid_field invalid_body key_unreadable key_trusted key_name_taken not_found
   */
  'POST /api/signing-keys': {
    body: typeof trustFields
    /** The key is trusted. */
    answer: { success: true; key: SigningKey }
  }
  /**
   * Revoke a key that signs releases.
   *
   * What was accepted before `since` stays valid, so that one can roll back to it. The answer lists the deployments that the key
   * has signed since then; without `since`, all.
   * @errors invalid_field not_found
   */
  'POST /api/signing-keys/:id/revoke': {
    body: typeof revokeKeyFields
    /** The key is revoked. */
    answer: { success: true; key: SigningKey; deployments: SignedDeployment[] }
  }
  /** Get the named token of the request. @errors not_found */
  'GET /api/tokens/self': {
    /** The token. */
    answer: AccessToken
  }
  /**
   * Change the name, rights or end of a named token.
   *
   * Fields that are absent keep their values. Sessions and streams of the token end.
   * @errors invalid_field not_found name_taken already_revoked last_admin
   */
  'PATCH /api/tokens/:id': {
    body: typeof tokenFields
    /** The token was changed. */
    answer: { success: true; record: AccessToken }
  }
  /**
   * Replace the secret of a named token.
   *
   * The earlier secret stays valid for `overlapSeconds`. Sessions and streams of the token end.
   * @errors invalid_field not_found already_revoked last_admin
   */
  'POST /api/tokens/:id/rotate': {
    body: typeof rotateFields
    /** The token has a new secret. */
    answer: NewToken
  }
  /**
   * Revoke a named token.
   *
   * Sessions and streams of the token end. The token stays in the list for 90 days.
   * @errors not_found already_revoked last_admin
   */
  'DELETE /api/tokens/:id': {
    /** The token was revoked. */
    answer: { success: true; record: AccessToken }
  }
  /**
   * Enter the token of the session again.
   *
   * Requests that answered `proof_required` are then accepted for the time of the setting `proof_minutes`.
   * @errors wrong_token code_required wrong_code code_locked variables_key no_session
   */
  'POST /api/auth/prove': {
    body: typeof proveFields
    /** The session is proven. */
    answer: { success: true; provenUntil: Instant | null }
  }
  /**
   * Begin to add a second factor to the own token.
   *
   * Only in a browser session, not with the token as a bearer. The token needs a code only after the confirmation. Then
   * it opens browser sessions and nothing else.
   * @errors no_named_token no_session factor_enrolled variables_key
   */
  'POST /api/auth/second-factor': {
    /** What an authenticator needs. It is shown once. */
    answer: { success: true; secret: string; link: string }
  }
  /**
   * Confirm a second factor by its first code.
   *
   * The other sessions of the token end, and what was opened with it as a bearer.
   * @errors no_named_token no_session factor_enrolled factor_not_begun wrong_code code_locked variables_key
   */
  'POST /api/auth/second-factor/confirm': {
    body: typeof codeFields
    /** The second factor is in force. */
    answer: { success: true; recoveryCodes: string[] }
  }
  /**
   * Remove the second factor of the own token.
   * @errors no_named_token not_found wrong_code code_locked variables_key
   */
  'DELETE /api/auth/second-factor': {
    body: typeof removalFields
    /** The second factor was removed. */
    answer: { success: true; message: string }
  }
  /**
   * Remove the second factor of a named token.
   *
   * For a user who lost the authenticator and the recovery codes.
   * @errors not_found
   */
  'DELETE /api/tokens/:id/second-factor': {
    /** The second factor was removed. */
    answer: { success: true; message: string }
  }
  /** List browser sessions, most recently used first. */
  'GET /api/sessions': {
    /** The sessions. */
    answer: { sessions: ListedSession[] }
  }
  /**
   * End a browser session.
   *
   * Closes the streams and terminals of the session immediately.
   * @errors not_found
   */
  'DELETE /api/sessions/:id': {
    /** The session has ended. */
    answer: { success: true; message: string }
  }
  /**
   * Get the admin token and the addresses of the server.
   *
   * Requests must come through the Unix socket in the data directory. `svc login` uses this route on the machine of the
   * server.
   */
  'POST /api/auth/local': {
    /** The addresses and the token. */
    answer: LocalLogin
  }
  /** Get the role and the project of the token. */
  'GET /api/auth/whoami': {
    /** The role of the token. */
    answer: TokenHolder
  }
  /**
   * Reset the admin token without the old one.
   *
   * Requests must come through the Unix socket in the data directory. `svc admin reset-password` uses this route.
   */
  'POST /api/auth/reset': {
    body: typeof resetTokenFields
    /** The token was replaced. */
    answer: { success: true; message: string }
  }
  /** Change the admin token. @errors wrong_token */
  'POST /api/settings/token': {
    body: typeof changeTokenFields
    /** The token was changed. */
    answer: { success: true; message: string }
  }
  /**
   * Create a ticket.
   *
   * A ticket is passed in the query of one request instead of a token, for clients that cannot set headers. It expires
   * after 30 seconds.
   * @errors too_many_tickets proof_required
   */
  'POST /api/tickets': {
    body: typeof ticketFields
    /** The ticket. */
    answer: { success: true; ticket: string; expiresAt: Instant }
  }
}
