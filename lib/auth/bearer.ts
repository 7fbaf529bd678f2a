import { Refusal } from '../base/refusal.js'
import { isFromOtherOrigin } from '../http/fetch-site.js'
import type { RequestFacts } from '../http/route.js'
import type { Actor } from '../model/audit.js'
import { addressesOf } from './addresses.js'
import type { Limiter } from './limiter.js'
import { isSameSecret } from './secret.js'
import { wrongCsrf } from './sessions.js'
import type { FoundSession } from './sessions.js'
import type { TicketPurpose } from './tickets.js'

/** What a caller turned out to be. `local`: the operator on this machine, through the data directory's socket. */
export type Role = 'anonymous' | 'admin' | 'local' | 'project' | 'global' | 'metrics'

/** The one a request acts for: as audit entries name them, and what they may. */
export interface Caller extends Actor {
  role: Role
  /** Of a project's token: the only project it opens. */
  projectId: string | null
  /** The browser session that the request belongs to. */
  session?: FoundSession
}

interface Rule {
  roles: readonly Role[]
  /** A ticket of this purpose (`?ticket=`) is as good as the admin token. */
  ticket?: TicketPurpose
  /** The admin token may come as a subprotocol: where a browser cannot send headers, a program may lack the means, too. */
  subprotocol?: boolean
  /** The roles that also need an address of the setting `allowed_ips`; true: all. */
  fromAllowed?: true | readonly Role[]
  /** A browser session opens it, although the admin token does not. */
  session?: boolean
}

/** Who may call a route (§5, and decided): every row of the API's table names one of these. */
const rules = {
  public: { roles: ['anonymous'] },
  admin: { roles: ['admin', 'local'] },
  /** Changes what is deployed. */
  operate: { roles: ['admin', 'local'], fromAllowed: true },
  /** A project's own token too, for what is the project's: the handler compares. */
  read: { roles: ['admin', 'local', 'project'] },
  /** As `read`, also from a link in a browser. */
  download: { roles: ['admin', 'local', 'project'], ticket: 'download' },
  /** As `admin`, also from a link in a browser. */
  admin_download: { roles: ['admin', 'local'], ticket: 'download' },
  /** Changes a deployment of the project's own: the handler compares. Deploy tokens need an address of `allowed_ips`. */
  own: { roles: ['admin', 'local', 'project'], fromAllowed: ['project'] },
  /** Any valid token. */
  token: { roles: ['admin', 'local', 'project', 'global'] },
  upload: { roles: ['project', 'global'], session: true, fromAllowed: true },
  /** The token of the setting `metrics_token`, too, which opens nothing else. */
  metrics: { roles: ['admin', 'local', 'metrics'] },
  /** As `upload`; the handler tells the holder of an admin token which token is needed. */
  upload_check: { roles: ['admin', 'local', 'project', 'global'], fromAllowed: true },
  terminal: { roles: ['admin', 'local'], ticket: 'terminal', subprotocol: true, fromAllowed: true },
  /** What whoever owns the data directory may do to it anyway; no token opens it. */
  local: { roles: ['local'] }
} as const satisfies Record<string, Rule>

export type Auth = keyof typeof rules

/** What of a request decides who calls. `client.local`: through the socket that only the owner can open. */
export type Credentials = Pick<RequestFacts, 'headers' | 'query' | 'client' | 'method'>

export interface Bearer {
  /**
   * Answers at once, unless the limiter delays the check. Refuses: 401 `unauthorized`, 403 `forbidden` for a known token
   * of another kind, and for any where none opens, 403 `address_not_allowed`, 429 as the limiter does. With a session
   * cookie: 403 `foreign_origin` for a page of another origin, 403 `wrong_csrf` for a change without the session's header.
   */
  authorise(auth: Auth, credentials: Credentials): Caller | Promise<Caller>
}

interface Needs {
  admin: { verify(token: string): boolean }
  /** The project whose deploy token this is. */
  projectOf(token: string): { id: string; token: string } | undefined
  globalToken(): string
  metricsToken(): string
  tickets: { redeem(ticket: string, purpose: TicketPurpose): boolean }
  allowList: { check(address: string): void }
  limiter: Limiter
  sessions: { find(headers: RequestFacts['headers']): FoundSession | null; hasCookie(headers: RequestFacts['headers']): boolean }
}

/** What a secret stands for. */
type Holder = Pick<Caller, 'name' | 'role' | 'projectId' | 'session'>

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
      return orRefuse(attempt, 'The ticket is not valid: it was used, has expired, or is for another purpose')
    }
    const token = tokenOf(headers.authorization) ?? (rule.subprotocol ? tokenOfSubprotocol(headers['sec-websocket-protocol']) : null)
    if (token === null) return holderOfSession(needs.sessions, rule, credentials)
    return orRefuse(limiter.attempt(credentials, () => holderOf(needs, rule, token)), 'The token is not valid here')
  }

  function admit(rule: Rule, { client }: Credentials, holder: Holder): Caller {
    if (!rule.roles.includes(holder.role) && !(rule.session && holder.session !== undefined)) {
      throw new Refusal('forbidden', 'forbidden', 'This token does not open this: the admin token is needed')
    }
    const { fromAllowed } = rule
    if (fromAllowed !== undefined && !client.local && (fromAllowed === true || fromAllowed.includes(holder.role))) {
      allowList.check(client.witnessed)
    }
    const { name, role, projectId, session } = holder
    const { ip, claimedIp } = addressesOf(client)
    // Not by spreading, which takes ten times as long (bench/api).
    return session === undefined ? { name, role, projectId, ip, claimedIp } : { name, role, projectId, ip, claimedIp, session }
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
  return new Refusal('forbidden', 'forbidden', 'Only the operator on the machine of the server may do this, through the command line')
}

const admin: Holder = { name: 'admin', role: 'admin', projectId: null }

/**
 * The session of the request's cookie. A secret of 256 random bits cannot be guessed, and a tab that was open for long
 * sends one that has ended: nothing is counted.
 */
function holderOfSession(sessions: Needs['sessions'], rule: Rule, { headers, method }: Credentials): Holder {
  const session = rule.session || rule.roles.includes('admin') ? sessions.find(headers) : null
  if (session === null) {
    if (sessions.hasCookie(headers)) throw unauthorized('The session has ended: sign in again')
    throw unauthorized('A token is needed: send the header "Authorization: Bearer <token>"')
  }
  if (isFromOtherOrigin(headers)) {
    throw new Refusal('forbidden', 'foreign_origin', 'The session cookie is refused: a page of another origin caused the request')
  }
  const isChange = method !== 'GET' && method !== 'HEAD'
  if (isChange && !isSameSecret(textOf(headers['x-svc-csrf']), session.csrf())) throw wrongCsrf()
  return { ...admin, session }
}

function textOf(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : ''
}

/** A result that is null is a 401 with this sentence. */
function orRefuse<T>(result: T | null | Promise<T | null>, sentence: string): T | Promise<T> {
  if (result instanceof Promise) return result.then(result => orRefuse(result, sentence))
  if (result === null) throw unauthorized(sentence)
  return result
}

/** Whose token it is, also where the rule does not admit that role; null: it is wrong. */
function holderOf(needs: Needs, { roles }: Rule, token: string): Holder | null {
  for (const role of roles) {
    const holder = holders[role]?.(needs, token)
    if (holder) return holder
  }
  // An upload says the same of the admin token as of an unknown one: neither is a deploy token.
  if (!roles.includes('admin') && roles.includes('global')) return null
  return holders.project?.(needs, token) ?? holders.global?.(needs, token) ?? holders.metrics?.(needs, token) ?? null
}

/** Whose token it is, of each kind that has one. */
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
    // The index finds by comparing prefixes; what it finds is believed only after a comparison in constant time.
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

/** `svc-admin-token, <token>` (decisions §6). */
function tokenOfSubprotocol(protocols: string | undefined): string | null {
  const token = /^\s*svc-admin-token\s*,\s*(\S+)\s*$/.exec(protocols ?? '')?.[1]
  return token === undefined || token.length > maxTokenLength ? null : token
}

function unauthorized(sentence: string): Refusal {
  return new Refusal('unauthorized', 'unauthorized', sentence)
}
