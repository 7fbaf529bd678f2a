import { Refusal } from '../base/refusal.js'
import { isFromOtherOrigin } from '../http/core/fetch-site.js'
import type { RequestFacts } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'
import { addressesOf } from './addresses.js'
import type { Limiter } from './limiter.js'
import { isSameSecret } from './secret.js'
import { wrongCsrf } from './sessions.js'
import type { FoundSession } from './sessions.js'
import type { TicketPurpose } from './tickets.js'

/** The role of a caller. `local` is the operator on this machine, through the data directory's socket. */
export type Role = 'anonymous' | 'admin' | 'local' | 'project' | 'global' | 'metrics'

/** The caller of a request: its name in audit entries, and its rights. */
export interface Caller extends Actor {
  role: Role
  /** For a project's deploy token: the only project that it can access. */
  projectId: string | null
  /** The browser session of the request. */
  session?: FoundSession
}

interface Rule {
  roles: readonly Role[]
  /** A ticket with this purpose (`?ticket=`) is accepted like the admin token. */
  ticket?: TicketPurpose
  /** The admin token may be a WebSocket subprotocol, for clients that cannot set headers. */
  subprotocol?: boolean
  /** The roles that also need an address of the setting `allowed_ips`, or true for all roles. */
  fromAllowed?: true | readonly Role[]
  /** A browser session is accepted even if the admin token is not. */
  session?: boolean
}

/** Authorization by kind of route (§5 and decisions). Every route of the API names one of these rules. */
const rules = {
  public: { roles: ['anonymous'] },
  admin: { roles: ['admin', 'local'] },
  /** Changes what is deployed. */
  operate: { roles: ['admin', 'local'], fromAllowed: true },
  /** A project's deploy token is accepted, too. The handler checks that it is the right project. */
  read: { roles: ['admin', 'local', 'project'] },
  /** As `read`, also with a ticket in a link. */
  download: { roles: ['admin', 'local', 'project'], ticket: 'download' },
  /** As `admin`, also with a ticket in a link. */
  admin_download: { roles: ['admin', 'local'], ticket: 'download' },
  /**
   * Changes a deployment or the lock of the token's own project, checked by the handler. Deploy tokens need
   * `allowed_ips`.
   */
  own: { roles: ['admin', 'local', 'project'], fromAllowed: ['project'] },
  /** Any valid token. */
  token: { roles: ['admin', 'local', 'project', 'global'] },
  upload: { roles: ['project', 'global'], session: true, fromAllowed: true },
  /** Also accepts the token of the setting `metrics_token`, which has no other rights. */
  metrics: { roles: ['admin', 'local', 'metrics'] },
  /** As `upload`. The handler tells a client with the admin token which token it needs. */
  upload_check: { roles: ['admin', 'local', 'project', 'global'], fromAllowed: true },
  terminal: { roles: ['admin', 'local'], ticket: 'terminal', subprotocol: true, fromAllowed: true },
  /** What the owner of the data directory can do to it anyway. No token is accepted. */
  local: { roles: ['local'] }
} as const satisfies Record<string, Rule>

/** The name of an authorization rule. */
export type Auth = keyof typeof rules

/** The parts of a request that identify its caller. `client.local` means the socket that only the owner can open. */
export type Credentials = Pick<RequestFacts, 'headers' | 'query' | 'client' | 'method'>

/** Authorizes requests. */
export interface Bearer {
  /**
   * Returns the caller, or a promise if the limiter delays the check. Refuses: 401 `unauthorized`, 403 `forbidden` for
   * a valid token without the right or a route without tokens, 403 `address_not_allowed`, and 429 as the limiter does.
   * With a session cookie: 403 `foreign_origin` for a page of another origin, 403 `wrong_csrf` for a change without the
   * header.
   */
  authorise(auth: Auth, credentials: Credentials): Caller | Promise<Caller>
}

interface Needs {
  admin: { verify(token: string): boolean }
  /** Returns the project with this deploy token. */
  projectOf(token: string): { id: string; token: string } | undefined
  globalToken(): string
  metricsToken(): string
  tickets: { redeem(ticket: string, purpose: TicketPurpose): boolean }
  allowList: { check(address: string): void }
  limiter: Limiter
  sessions: {
    find(headers: RequestFacts['headers']): FoundSession | null
    hasCookie(headers: RequestFacts['headers']): boolean
  }
}

/** The caller that a secret identifies. */
type Holder = Pick<Caller, 'name' | 'role' | 'projectId' | 'session'>

/** Creates the authorization of a server. */
export function createBearer(needs: Needs): Bearer {
  const { allowList, tickets, limiter } = needs

  function holderFor(rule: Rule, credentials: Credentials): Holder | Promise<Holder> {
    const { headers, client, query } = credentials
    if (rule.roles.includes('anonymous')) return { name: 'anonymous', role: 'anonymous', projectId: null }
    if (client.local && rule.roles.includes('local')) return { name: 'local', role: 'local', projectId: null }
    if (rule.roles.every(role => role === 'local')) throw notLocal()
    const { ticket: purpose } = rule
    const ticket = purpose !== undefined && headers.authorization === undefined ? query.get('ticket') : null
    if (purpose !== undefined && ticket !== null) {
      const attempt = limiter.attempt(credentials, () => (tickets.redeem(ticket, purpose) ? admin : null))
      return orRefuse(attempt, 'The ticket is not valid: it was used, has expired, or has another purpose')
    }
    const token =
      tokenOf(headers.authorization) ??
      (rule.subprotocol ? tokenOfSubprotocol(headers['sec-websocket-protocol']) : null)
    if (token === null) return holderOfSession(needs.sessions, rule, credentials)
    return orRefuse(
      limiter.attempt(credentials, () => holderOf(needs, rule, token)),
      'The token is not valid here'
    )
  }

  function admit(rule: Rule, { client }: Credentials, holder: Holder): Caller {
    if (!rule.roles.includes(holder.role) && !(rule.session && holder.session !== undefined)) {
      throw new Refusal('forbidden', 'forbidden', 'Permission denied: this request requires the admin token')
    }
    const { fromAllowed } = rule
    if (fromAllowed !== undefined && !client.local && (fromAllowed === true || fromAllowed.includes(holder.role))) {
      allowList.check(client.witnessed)
    }
    const { name, role, projectId, session } = holder
    const { ip, claimedIp } = addressesOf(client)
    // Without a spread, which takes ten times as long (bench/api).
    return session === undefined
      ? { name, role, projectId, ip, claimedIp }
      : { name, role, projectId, ip, claimedIp, session }
  }

  return {
    authorise(auth, credentials) {
      const rule: Rule = rules[auth]
      const holder = holderFor(rule, credentials)
      if (holder instanceof Promise) return holder.then(holder => admit(rule, credentials, holder))
      return admit(rule, credentials, holder)
    }
  }
}

function notLocal(): Refusal {
  return new Refusal(
    'forbidden',
    'forbidden',
    "Permission denied: only the operator can do this, with the command line on the server's machine"
  )
}

const admin: Holder = { name: 'admin', role: 'admin', projectId: null }

/**
 * Returns the holder of the request's session cookie. Failures are not counted: a secret of 256 random bits cannot be
 * guessed, and a tab that has been open for a long time sends a session that has ended.
 */
function holderOfSession(sessions: Needs['sessions'], rule: Rule, { headers, method }: Credentials): Holder {
  const session = rule.session || rule.roles.includes('admin') ? sessions.find(headers) : null
  if (session === null) {
    if (sessions.hasCookie(headers)) throw unauthorized('The session has ended. Sign in again')
    throw unauthorized('A token is required: send the header "Authorization: Bearer <token>"')
  }
  if (isFromOtherOrigin(headers)) {
    throw new Refusal(
      'forbidden',
      'foreign_origin',
      'The session cookie is not accepted: the request comes from a page of another origin'
    )
  }
  const isChange = method !== 'GET' && method !== 'HEAD'
  if (isChange && !isSameSecret(textOf(headers['x-svc-csrf']), session.csrf())) throw wrongCsrf()
  return { ...admin, session }
}

function textOf(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : ''
}

/** Returns the result, or throws a 401 with this sentence if it is null. */
function orRefuse<T>(result: T | null | Promise<T | null>, sentence: string): T | Promise<T> {
  if (result instanceof Promise) return result.then(result => orRefuse(result, sentence))
  if (result === null) throw unauthorized(sentence)
  return result
}

/** Returns the holder of a token, even if the rule does not allow its role. Returns null for an unknown token. */
function holderOf(needs: Needs, { roles }: Rule, token: string): Holder | null {
  for (const role of roles) {
    const holder = holders[role]?.(needs, token)
    if (holder) return holder
  }
  // For an upload, the admin token is as invalid as an unknown one: neither is a deploy token.
  if (!roles.includes('admin') && roles.includes('global')) return null
  return holders.project?.(needs, token) ?? holders.global?.(needs, token) ?? holders.metrics?.(needs, token) ?? null
}

/** Finds the holder of a token, for each role that has tokens. */
const holders: Partial<Record<Role, (needs: Needs, token: string) => Holder | null>> = {
  admin: (needs, token) => (needs.admin.verify(token) ? admin : null),

  global({ globalToken }, token) {
    const global = globalToken()
    if (global === '' || !isSameSecret(token, global)) return null
    return { name: 'global-deploy', role: 'global', projectId: null }
  },

  metrics({ metricsToken }, token) {
    const known = metricsToken()
    if (known === '' || !isSameSecret(token, known)) return null
    return { name: 'metrics', role: 'metrics', projectId: null }
  },

  project({ projectOf }, token) {
    // The index compares prefixes, so its timing reveals something. The result is compared again in constant time.
    const project = projectOf(token)
    if (project === undefined || !isSameSecret(token, project.token)) return null
    return { name: `project:${project.id}`, role: 'project', projectId: project.id }
  }
}

const maxTokenLength = 4096

function tokenOf(authorization: string | undefined): string | null {
  const token = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
  return token === undefined || token.length > maxTokenLength ? null : token
}

/** Reads the token from `svc-admin-token, <token>` (decisions §6). */
function tokenOfSubprotocol(protocols: string | undefined): string | null {
  const token = /^\s*svc-admin-token\s*,\s*(\S+)\s*$/.exec(protocols ?? '')?.[1]
  return token === undefined || token.length > maxTokenLength ? null : token
}

function unauthorized(sentence: string): Refusal {
  return new Refusal('unauthorized', 'unauthorized', sentence)
}
