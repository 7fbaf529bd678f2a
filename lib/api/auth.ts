import type { SignInToken } from '../access/named-tokens.js'
import type { FactorOwner } from '../access/second-factor.js'
import { ticketPurposes } from '../access/secret.js'
import type { Clock } from '../base/clock.js'
import { invalid, notFound, Refusal } from '../base/errors.js'
import { json } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'
import {
  accessRoles,
  type ListedSession,
  type LocalLogin,
  type NewToken,
  type SignedIn,
  type TokenHolder,
  tokenLimits,
  type TokenList
} from '../model/access.js'
import { tokenTextFault } from '../base/shared/token-text.js'
import {
  flag,
  instant,
  integer,
  line,
  list,
  name,
  nullable,
  oneOf,
  optional,
  present,
  readFields,
  readRights
} from '../base/fields.js'
import type { Project } from '../model/project.js'
import { parseHost } from '../http/core/headers.js'
import { type ApiRequest, type Handler, param } from './route.js'
import type { ApiServices } from './services.js'

const maxTokenLength = 4096
const token = line({ max: maxTokenLength })
const code = optional(line({ min: 1, max: 100 }))

/** Fields of `POST /api/auth/login`. */
export const loginFields = {
  /** The admin token, or a named one. */
  token,
  /** A code of the authenticator or a recovery code, for a token with a second factor. */
  code,
  /** Whether to begin a browser session. */
  session: optional(flag),
  /** Whether the browser keeps the session after it is closed. */
  remember: optional(flag)
}
/** Fields of `POST /api/auth/prove`. */
export const proveFields = {
  /** The token with which the session began. */
  token,
  /** A code, for a token with a second factor. */
  code
}
/** Fields of `POST /api/settings/token`. */
export const changeTokenFields = {
  /** The current admin token. */
  oldToken: token,
  /** The new admin token. */
  newToken: token
}
/** Fields of `POST /api/auth/reset`. */
export const resetTokenFields = {
  /** The new admin token. */
  newToken: token
}
/** Fields of `POST /api/tickets`. */
export const ticketFields = {
  /** The kind of request that the ticket is for. */
  purpose: oneOf(ticketPurposes)
}

/** Handlers of login, sessions, the admin token and tickets (§4.2, §4.7, §4.13, §5). */
export function authHandlers(needs: ApiServices) {
  return { ...signInHandlers(needs), ...sessionHandlers(needs), ...adminTokenHandlers(needs) }
}

function signInHandlers({ admin, named, limiter, sessions, factors, proof, audit }: ApiServices) {
  /** Returns who signs in with a token; null if the token is not valid. */
  async function findSignIn(request: ApiRequest, token: string): Promise<SignIn | null> {
    const { actor, client } = request
    // Who has a session is no stranger: the lock of the address stops only a wrong secret.
    const bearer = actor.session === undefined ? undefined : { secret: token }
    const check = (): SignIn | null => {
      const found = named.signIn(token, client.local ? null : client.witnessed)
      if (found === null) return admin.verify(token) ? { token: null, actor: adminActor(actor) } : null
      const caller = named.callerById(found.id, null)
      return caller === null ? null : { token: found, actor: { ...actor, ...caller, session: undefined } }
    }
    return limiter.attempt(request, check, bearer)
  }

  /** Refuses a sign-in without the second factor of its token. Returns whether a code was checked. */
  async function checkCode(request: ApiRequest, { token, actor }: SignIn, code: string | undefined): Promise<boolean> {
    if (token === null || actor.token === undefined) return false
    return factors.check(actor.token, { code, origin: request, actor })
  }

  const prove: Handler = async request => {
    const { token, code } = readFields(await request.json(), proveFields)
    const { session } = request.actor
    if (session === undefined) {
      throw new Refusal('conflict', 'no_session', 'This request belongs to a browser session, and there is none')
    }
    const signIn = await findSignIn(request, token)
    const { actor } = request
    if (signIn === null || (signIn.token?.id ?? null) !== session.tokenId) {
      await audit.record({ action: 'auth.prove', actor, ok: false })
      throw wrongToken(token)
    }
    await checkCode(request, signIn, code)
    await audit.record({ action: 'auth.prove', actor })
    return json({ success: true, provenUntil: proof.until(await sessions.prove(session.id)) })
  }

  const login: Handler = async request => {
    const { token, code, session, remember = false } = readFields(await request.json(), loginFields)
    const signIn = await findSignIn(request, token)
    if (signIn === null) throw wrongToken(token)
    const hasCode = await checkCode(request, signIn, code)
    if (session === true) {
      const { headers, isSecure } = request
      const start = { remember, token: signIn.token, hasCode }
      const { cookie, ...begun } = await sessions.begin({ headers, isSecure, actor: signIn.actor }, start)
      return json({ success: true, message: 'Signed in', session: begun }, 200, { 'set-cookie': cookie })
    }
    await audit.record({ action: 'auth.login', actor: signIn.actor })
    return json({ success: true, message: 'The token is valid' })
  }

  return { login, prove }
}

function sessionHandlers({ named, sessions, proof, hasFleet }: ApiServices) {
  const session: Handler = ({ actor }) => {
    const { role, name, token = null } = actor
    const projects = actor.projects === null ? null : [...actor.projects]
    const { id = null, expiresAt = null } = actor.session ?? {}
    const csrf = actor.session?.csrf() ?? null
    const provenUntil = actor.session === undefined ? null : proof.until(actor.session.provenAt)
    const needsProof = !proof.isRecent(actor.session?.provenAt)
    const self = { role, name, token, projects, id, csrf, expiresAt, provenUntil, needsProof, fleet: hasFleet() }
    return json(self satisfies SignedIn)
  }

  /** A bearer token has no session and stays valid. */
  const signOut: Handler = async ({ actor, isSecure }) => {
    if (actor.session === undefined) return json({ success: true, message: 'No session to end' })
    await sessions.end(actor.session.id, { actor, own: true })
    const cookie = sessions.removal(isSecure)
    return json({ success: true, message: 'Signed out' }, 200, cookie === null ? {} : { 'set-cookie': cookie })
  }

  const list: Handler = ({ actor }) => {
    const names = new Map(named.list().map(({ id, name }) => [id, name]))
    const listed: ListedSession[] = sessions.list().map(each => ({
      ...each,
      tokenName: names.get(each.tokenId ?? '') ?? null,
      current: each.id === actor.session?.id
    }))
    return json({ sessions: listed })
  }

  const revoke: Handler = async request => {
    const id = param(request, 'id')
    await sessions.end(id, { actor: request.actor, own: id === request.actor.session?.id })
    return json({ success: true, message: 'The session has ended' })
  }

  return { session, signOut, list, revoke }
}

function adminTokenHandlers({ admin, limiter, tickets, sessions, proof, audit, publicUrl, ownUrl }: ApiServices) {
  /** The route is only reachable through the socket in the data directory, whose owner can read the token there. */
  const loginHere: Handler = async ({ actor }) => {
    await audit.record({ action: 'auth.login', actor })
    const own = ownUrl()
    const addresses = [own === null ? null : connectable(own), publicUrl].flatMap(each => each ?? [])
    return json({ success: true, addresses, token: admin.current() } satisfies LocalLogin)
  }

  const changeToken: Handler = async request => {
    const { actor } = request
    const fields = readFields(await request.json(), changeTokenFields)
    if (!(await limiter.attempt(request, () => admin.verify(fields.oldToken) || null))) {
      await audit.record({ action: 'auth.change_token', actor, ok: false })
      throw new Refusal('unauthorized', 'wrong_token', 'The token was not changed: "oldToken" is not the admin token')
    }
    await sessions.withNewToken(request.headers, () => admin.change(fields.newToken))
    await audit.record({ action: 'auth.change_token', actor })
    return json({ success: true, message: 'The admin token was changed' })
  }

  /** It needs no old token: the route is only reachable through the socket in the data directory. */
  const resetToken: Handler = async request => {
    const { newToken } = readFields(await request.json(), resetTokenFields)
    await sessions.withNewToken({}, () => admin.change(newToken))
    await audit.record({ action: 'auth.reset_token', actor: request.actor })
    return json({ success: true, message: 'The admin token was reset' })
  }

  const ticket: Handler = async request => {
    const { purpose } = readFields(await request.json(), ticketFields)
    const { actor } = request
    // A browser cannot read why a WebSocket was refused.
    if (purpose === 'terminal') proof.check(actor.provenAt)
    return json({
      success: true,
      ...tickets.issue(purpose, {
        tokenId: actor.token?.id ?? null,
        session: actor.session,
        checkAgain: actor.checkAgain
      })
    })
  }

  return { loginHere, changeToken, resetToken, ticket }
}

/** Returns the URL of a server that listens on all addresses as a client of its machine uses it. */
function connectable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}

/** Who signs in. `token` is the named token; null: the admin token. */
interface SignIn {
  token: SignInToken | null
  actor: Actor
}

function adminActor(actor: Actor): Actor {
  return { ...actor, name: 'admin', role: 'admin' }
}

function wrongToken(token: string): Refusal {
  const fault = tokenTextFault(token)
  if (fault !== null) return new Refusal('unauthorized', 'wrong_token', `Login failed: the token is wrong: ${fault}`)
  return new Refusal(
    'unauthorized',
    'wrong_token',
    'Login failed: the token is neither the admin token nor a named one'
  )
}

/** Handler of `GET /api/auth/whoami`: the role and project of the token. Commands check a token with it. */
export function whoamiHandlers({ findProject, expiryOf }: ApiServices) {
  return {
    whoami({ actor }) {
      const { role, name, token } = actor
      const projects = token === undefined || actor.projects === null ? null : actor.projects.flatMap(shortOf)
      const named = token === undefined ? null : { ...token, expiresAt: expiryOf(token.id) }
      const holder: TokenHolder = { role, name, project: summaryOf(actor.projectId), token: named, projects }
      return json(holder)
    }
  } satisfies Record<string, Handler>

  function shortOf(id: string): Array<Pick<Project, 'id' | 'name'>> {
    const project = findProject(id)
    return project === undefined ? [] : [{ id, name: project.name }]
  }

  function summaryOf(id: string | null): TokenHolder['project'] {
    const project = id === null ? undefined : findProject(id)
    if (project === undefined) return null
    const { name, env, status, lastDeployAt } = project
    return { id: project.id, name, env, status, lastDeployAt }
  }
}

const requiredCode = line({ min: 1, max: 100 })

/** Fields of `POST /api/auth/second-factor/confirm`. */
export const codeFields = {
  /** A code of the authenticator. */
  code: requiredCode
}
/** Fields of `DELETE /api/auth/second-factor`. */
export const removalFields = {
  /** A code of the authenticator or a recovery code. */
  code: requiredCode
}

/** Handlers of second factors. Each user manages that of the own token; an admin can remove others. */
export function secondFactorHandlers({ factors, named }: ApiServices) {
  return {
    begin: async request => {
      const { link, secret } = await factors.begin(ownerOf(request), {
        issuer: issuerOf(request),
        actor: request.actor
      })
      return json({ success: true, secret, link })
    },

    confirm: async request => {
      const { code } = readFields(await request.json(), codeFields)
      const given = { code, origin: request, actor: request.actor }
      return json({ success: true, recoveryCodes: await factors.confirm(ownerOf(request), given) })
    },

    remove: async request => {
      const { code } = readFields(await request.json(), removalFields)
      const owner = ownerOf(request)
      await factors.check(owner, { code, origin: request, actor: request.actor })
      await factors.remove(owner, request.actor)
      return json({ success: true, message: 'The second factor was removed' })
    },

    reset: async request => {
      const owner = named.get(param(request, 'id'))
      if (owner.id === request.actor.token?.id) {
        throw new Refusal('forbidden', 'forbidden', 'Removing the second factor of your own token needs a code of it')
      }
      await factors.remove(owner, request.actor)
      return json({ success: true, message: 'The second factor was removed' })
    }
  } satisfies Record<string, Handler>
}

/** Returns the named token of a request. Refuses: 409 `no_named_token`. */
function ownerOf({ actor }: ApiRequest): FactorOwner {
  if (actor.token !== undefined) return actor.token
  const sentence = 'The admin token has no second factor. Sign in with a named token to add one to it'
  throw new Refusal('conflict', 'no_named_token', sentence)
}

/** Returns the name of the server that an authenticator shows. */
function issuerOf({ headers }: ApiRequest): string {
  const name = parseHost(headers.host ?? '')?.name ?? ''
  return name === '' ? 'svc' : `svc ${name}`
}

const projectIds = optional(nullable(list(line({ min: 1, max: 100 }), { max: tokenLimits.projects })))
const allowedIps = optional(list(line({ min: 1, max: 100 }), { max: tokenLimits.addresses }))
const role = oneOf(accessRoles)
const expiresAt = optional(instant)

/** Fields of `POST /api/tokens`. */
export const newTokenFields = {
  /** Name of the token, unique whatever the case of its letters. */
  name,
  /** Rights of the token. */
  role,
  /** The projects that the token is limited to. Null: none. */
  projectIds,
  /** When the token expires. Default: 90 days from now. */
  expiresAt,
  /** Days from now until the token expires, instead of `expiresAt`. */
  days: optional(integer(1, 3650)),
  /** Addresses and CIDR blocks that may use the token. Empty: all. */
  allowedIps,
  /** Whether a viewer or deployer may read the scripts of its projects. */
  showScripts: optional(flag)
}
/** Fields of `PATCH /api/tokens/:id`. */
export const tokenFields = {
  ...newTokenFields,
  name: optional(name),
  role: optional(role),
  /** When the token expires. */
  expiresAt
}
/** Fields of `POST /api/tokens/:id/rotate`. */
export const rotateFields = {
  /** How long the earlier secret stays valid. Default: 0. */
  overlapSeconds: optional(integer(0, tokenLimits.overlapSeconds)),
  /** When the new secret expires. Default: as long from now as the earlier one was valid. */
  expiresAt
}

/** Handlers of named tokens. Only the answers of `create` and `rotate` contain a secret. */
export function tokenHandlers({ named, builtInTokens, adviceOf, clock }: ApiServices) {
  return {
    list() {
      const items = named.list().map(token => ({ ...token, advice: adviceOf(token) }))
      return json({ items, builtIn: builtInTokens() } satisfies TokenList)
    },

    self({ actor }) {
      if (actor.token === undefined) throw notFound('Token', actor.name)
      return json(named.get(actor.token.id))
    },

    create: async request => {
      const fields = withEnd(readRights(await request.json(), newTokenFields), clock)
      return json({ success: true, ...(await named.create(fields, request.actor)) } satisfies NewToken)
    },

    update: async request => {
      const fields = withEnd(readRights(await request.json(), tokenFields), clock)
      return json({ success: true, record: await named.update(idOf(request), present(fields), request.actor) })
    },

    rotate: async request => {
      const { overlapSeconds = 0, expiresAt } = readRights(await request.json(), rotateFields)
      const minted = await named.rotate(idOf(request), { overlapSeconds, expiresAt }, request.actor)
      return json({ success: true, ...minted } satisfies NewToken)
    },

    revoke: async request => json({ success: true, record: await named.revoke(idOf(request), request.actor) })
  } satisfies Record<string, Handler>
}

/** Returns fields with the end that `days` says. */
function withEnd<F extends { days: number | undefined; expiresAt: string | undefined }>(
  { days, ...fields }: F,
  clock: Clock
): Omit<F, 'days'> {
  if (days === undefined) return fields
  if (fields.expiresAt !== undefined) throw invalid('days', 'Give "days" or "expiresAt", not both')
  return { ...fields, expiresAt: new Date(clock.now() + days * 24 * 60 * 60_000).toISOString() }
}

/** Returns the id in the path. Refuses: 409 `last_admin` for the admin token, which is changed in another way. */
function idOf(request: Parameters<Handler>[0]): string {
  const id = param(request, 'id')
  if (id !== 'admin') return id
  const sentence = 'The admin token cannot be revoked or rotated here: change it in the settings'
  throw new Refusal('conflict', 'last_admin', sentence)
}

/** Handler of `GET /api/access/report`: which tokens can deploy where (model/access.ts). */
export function accessReportHandlers({ accessReport }: ApiServices) {
  return { read: () => json(accessReport()) } satisfies Record<string, Handler>
}
