import { Refusal } from '../base/errors.js'
import { sha256 } from '../base/digests.js'
import { isFromOtherOrigin } from '../http/core/headers.js'
import type { ClientAddress, RequestFacts } from '../http/core/route.js'
import { type AccessRole, includesRole } from '../model/access.js'
import type { Actor } from '../model/audit.js'
import { type RelayedRequest, relayedRoles } from '../model/fleet-wire.js'
import { addressesOf } from './failures.js'
import type { Limiter } from './limiter.js'
import type { NamedTokens, TokenCaller } from './named-tokens.js'
import type { NodeRequests, SigningNode } from './node-requests.js'
import { isSameSecret, type TicketHolder, type TicketPurpose } from './secret.js'
import { type FoundSession, wrongCsrf } from './sessions.js'

/**
 * The role of a caller. `admin` is the admin token or a named token with that role; `local` is the operator on this
 * machine, through the data directory's socket; `project` and `global` are deploy tokens; `agent` is a node of the
 * fleet.
 */
export type Role = 'anonymous' | AccessRole | 'local' | 'project' | 'global' | 'metrics' | 'agent'

/** The caller of a request: its name in audit entries, and its rights. */
export interface Caller extends Actor {
  role: Role
  /** For a project's deploy token: the only project that it can access. */
  projectId: string | null
  /** The projects that the caller is limited to; null: none. */
  projects: readonly string[] | null
  /** The named token of the caller. */
  token?: { readonly id: string; readonly name: string } | undefined
  /** Of a deploy token: tells it from the one that it replaced. */
  mark?: string | undefined
  /** Whether the caller may read the texts of scripts. */
  seesScripts: boolean
  /** The browser session of the request. */
  session?: FoundSession | undefined
  /** The node that signed the request. */
  node?: SigningNode | undefined
  /** Whether the hub of a fleet relays the request of its user. */
  isRelayed?: boolean | undefined
  /** Whether the token has expired, and may only finish the uploads that it began before. */
  isLate?: true | undefined
  /** When the user of the session, or of the session's ticket, gave the secret last; undefined for a bearer token. */
  provenAt?: string | null | undefined
}

interface Rule {
  /** The least role of a named token that is accepted; null: none is. */
  min: AccessRole | null
  /** The other callers that are accepted. `admin` is the admin token. */
  others: readonly Role[]
  /** A ticket with this purpose (`?ticket=`) is accepted like the token that it was issued to. */
  ticket?: TicketPurpose
  /** The admin token may be a WebSocket subprotocol, for clients that cannot set headers. */
  subprotocol?: boolean
  /** The roles that also need an address of the setting `allowed_ips`, or true for all roles. */
  fromAllowed?: true | readonly Role[]
  /** A browser session is accepted even if the admin token is not. */
  session?: boolean
  /** An expired token that has unfinished uploads is accepted. The handler checks that the request concerns one of them. */
  late?: boolean
}

const operators = ['admin', 'local'] as const
const deployTokens = ['project', 'deployer', 'operator'] as const

/**
 * Authorization by kind of route (§5 and decisions). Every route of the API names one of these rules, and the project
 * that it concerns (api/route.ts).
 */
const rules = {
  public: { min: null, others: ['anonymous'] },
  /** What the owner of the data directory can do to it anyway. No token is accepted. */
  local: { min: null, others: ['local'] },
  /** A request that a node of the fleet has signed (node-requests.ts). No token is accepted. */
  agent: { min: null, others: ['agent'] },
  /** Any valid token. */
  token: { min: 'viewer', others: ['admin', 'local', 'project', 'global'] },
  viewer: { min: 'viewer', others: operators },
  /** As `viewer`; a project's deploy token is accepted, too. */
  read: { min: 'viewer', others: ['admin', 'local', 'project'] },
  /** As `read`, also with a ticket in a link. */
  download: { min: 'viewer', others: ['admin', 'local', 'project'], ticket: 'download' },
  /** As `viewer`, also with a ticket in a link. */
  viewer_download: { min: 'viewer', others: operators, ticket: 'download' },
  /** Decides about a deployment. A deployer may do so only for its own (`checkOwnDeployment`). */
  own: { min: 'deployer', others: ['admin', 'local', 'project'], fromAllowed: deployTokens },
  upload: { min: 'deployer', others: ['project', 'global'], session: true, fromAllowed: true, late: true },
  /** As `upload`, for the pieces of an upload. */
  piece: { min: 'deployer', others: ['project', 'global'], session: true, fromAllowed: true, late: true },
  /** As `upload`. The handler tells a client with the admin token which token it needs. */
  upload_check: { min: 'deployer', others: ['admin', 'local', 'project', 'global'], fromAllowed: true },
  operator: { min: 'operator', others: operators },
  /** As `operator`, also with a ticket in a link. */
  operator_download: { min: 'operator', others: operators, ticket: 'download' },
  /** Deploys the release of another project. Its deploy token is accepted, too. */
  promote: { min: 'deployer', others: ['admin', 'local', 'project'], fromAllowed: true },
  /** Decides about a deployment of somebody else, if the policy of the project permits it to the role. */
  approve: { min: 'deployer', others: operators, fromAllowed: true },
  /** Changes what is deployed. */
  operate: { min: 'operator', others: operators, fromAllowed: true },
  /** Changes the lock or the maintenance of a project. Its deploy token is accepted, too. */
  manage: { min: 'operator', others: ['admin', 'local', 'project'], fromAllowed: deployTokens },
  /** Reads an edited file of a target. The project's deploy token is accepted, too. */
  fetch: { min: 'operator', others: ['admin', 'local', 'project'] },
  admin: { min: 'admin', others: operators },
  /** As `admin`, also with a ticket in a link. */
  admin_download: { min: 'admin', others: operators, ticket: 'download' },
  /** Also accepts the token of the setting `metrics_token`, which has no other rights. */
  metrics: { min: 'admin', others: ['admin', 'local', 'metrics'] },
  terminal: { min: 'admin', others: operators, ticket: 'terminal', subprotocol: true, fromAllowed: true }
} as const satisfies Record<string, Rule>

/** The name of an authorization rule. */
export type Auth = keyof typeof rules

/** Returns the least role of a named token that a rule accepts; null: none. */
export function leastRole(auth: Auth): AccessRole | null {
  return rules[auth].min
}

/** The parts of a request that identify its caller. `client.local` means the socket that only the owner can open. */
export type Credentials = Pick<RequestFacts, 'headers' | 'query' | 'client' | 'method' | 'path'>

/** Authorizes requests. */
export type Bearer = ReturnType<typeof createBearer>

interface Needs {
  admin: { verify(token: string): boolean }
  /** Returns the project with this deploy token. */
  projectOf(token: string): { id: string; token: string } | undefined
  globalToken(): string
  metricsToken(): string
  named: Pick<NamedTokens, 'callerOf' | 'callerById' | 'callerAgain'>
  tickets: { redeem(ticket: string, purpose: TicketPurpose): TicketHolder | null }
  allowList: { check(address: string): void }
  limiter: Limiter
  /** Whether a named token has unfinished uploads. */
  hasUploads?(tokenId: string): boolean
  nodes: Pick<NodeRequests, 'verify' | 'isKnown'>
  /** Returns the user of a request that the agent of this server sends for its hub; null: it is another request. */
  relayed?: ((headers: RequestFacts['headers']) => RelayedCaller | null) | undefined
  sessions: {
    find(headers: RequestFacts['headers']): FoundSession | null
    isAlive(id: string): boolean
    hasCookie(headers: RequestFacts['headers']): boolean
  }
}

/** The caller that a secret identifies. */
type Holder = Pick<
  Caller,
  | 'name'
  | 'role'
  | 'projectId'
  | 'projects'
  | 'token'
  | 'mark'
  | 'seesScripts'
  | 'session'
  | 'node'
  | 'provenAt'
  | 'isRelayed'
  | 'isLate'
> & {
  /** Finds the holder once more, and takes no note of it. Undefined: its rights end with the process. */
  again?: (finishes: boolean) => Holder | null
}

/** Creates the authorization of a server. */
export function createBearer(needs: Needs) {
  const { allowList, tickets, limiter } = needs

  function holderFor(rule: Rule, credentials: Credentials): Holder | Promise<Holder> {
    const { headers, client, query } = credentials
    if (rule.others.includes('anonymous')) return anonymous
    const relayed = client.local ? (needs.relayed?.(headers) ?? null) : null
    if (relayed !== null) return holderOfRelayed(relayed)
    // At the socket, a token that is given replaces the rights of the operator: it names who acts, and may deploy.
    if (client.local && rule.others.includes('local') && headers.authorization === undefined) return local
    if (rule.others.includes('agent')) return holderOfNode(needs, needs.nodes.verify(credentials))
    if (rule.min === null && rule.others.every(role => role === 'local')) throw notLocal()
    const { ticket: purpose } = rule
    const ticket = purpose !== undefined && headers.authorization === undefined ? query.get('ticket') : null
    if (purpose !== undefined && ticket !== null) {
      const redeem = (): Holder | null => holderOfTicket(needs, tickets.redeem(ticket, purpose), client)
      const attempt = limiter.attempt(credentials, redeem, { secret: ticket })
      return orRefuse(attempt, 'The ticket is not valid: it was used, has expired, or has another purpose')
    }
    const token =
      tokenOf(headers.authorization) ??
      (rule.subprotocol ? tokenOfSubprotocol(headers['sec-websocket-protocol']) : null)
    if (token === null) return holderOfSession(needs, rule, credentials)
    return orRefuse(
      limiter.attempt(credentials, () => holderOf(needs, rule, { token, address: addressOf(client) }), {
        secret: token
      }),
      'The token is not valid here'
    )
  }

  function checkAddress({ fromAllowed }: Rule, { client }: Credentials, { role }: Holder): void {
    if (fromAllowed !== undefined && !client.local && (fromAllowed === true || fromAllowed.includes(role))) {
      allowList.check(client.witnessed)
    }
  }

  function checkSame(
    rule: Rule,
    credentials: Credentials,
    { holder, again, finishes }: { holder: Holder; again: NonNullable<Holder['again']>; finishes: boolean }
  ): void {
    try {
      const now = again(finishes || holder.isLate === true)
      if (now !== null) checkAddress(rule, credentials, now)
      if (now?.role === holder.role && String(now.projects) === String(holder.projects)) return
    } catch (cause) {
      throw ended(cause)
    }
    throw ended()
  }

  function admit(rule: Rule, credentials: Credentials, holder: Holder): Caller {
    checkRole(rule, holder)
    checkAddress(rule, credentials, holder)
    const { again } = holder
    const checkAgain = again && ((finishes: boolean) => checkSame(rule, credentials, { holder, again, finishes }))
    const { name, role, projectId, projects, token, mark, seesScripts, session, node, provenAt, isRelayed, isLate } =
      holder
    const { ip, claimedIp } = addressesOf(credentials.client)
    // Without a spread, which takes ten times as long (bench/api).
    return {
      name,
      role,
      projectId,
      projects,
      token,
      mark,
      seesScripts,
      ip,
      claimedIp,
      session,
      node,
      provenAt,
      isRelayed,
      isLate,
      checkAgain
    }
  }

  return {
    /**
     * Returns the caller, or a promise if the limiter delays the check. Refuses: 401 `unauthorized`, 403 `forbidden`
     * for a valid token without the right or a route without tokens, 403 `address_not_allowed`, and 429 as the limiter
     * does. With a session cookie: 403 `foreign_origin` for a page of another origin, 403 `wrong_csrf` for a change
     * without the header.
     */
    authorise(auth: Auth, credentials: Credentials): Caller | Promise<Caller> {
      const rule: Rule = rules[auth]
      const holder = holderFor(rule, credentials)
      if (holder instanceof Promise) return holder.then(holder => admit(rule, credentials, holder))
      return admit(rule, credentials, holder)
    }
  }
}

/** Refuses a holder whom a rule does not admit. */
function checkRole(rule: Rule, { role, token, session }: Holder): void {
  if (token !== undefined) {
    if (rule.min !== null && includesRole(role as AccessRole, rule.min)) return
    const needed = rule.min === null ? '' : ` The request requires the role "${rule.min}" or higher`
    const sentence = `Permission denied: the token "${token.name}" has the role "${role}".${needed}`
    throw new Refusal('forbidden', 'role_too_low', sentence)
  }
  if (rule.others.includes(role) || (rule.session && session !== undefined)) return
  const orNamed = rule.min === null ? '' : `, or a named token with the role "${rule.min}" or higher`
  throw new Refusal('forbidden', 'forbidden', `Permission denied: this request requires the admin token${orNamed}`)
}

function notLocal(): Refusal {
  return new Refusal(
    'forbidden',
    'forbidden',
    "Permission denied: only the operator can do this, with the command line on the server's machine"
  )
}

const everything = { projectId: null, projects: null, token: undefined, seesScripts: true, session: undefined } as const
const nothing = { projectId: null, projects: null, token: undefined, seesScripts: false, session: undefined } as const
const anonymous: Holder = { name: 'anonymous', role: 'anonymous', ...nothing }
const local: Holder = { name: 'local', role: 'local', ...everything }
const admin: Holder = { name: 'admin', role: 'admin', ...everything }

function holderOfNode({ nodes }: Needs, node: SigningNode): Holder {
  const holder: Holder = { name: `node:${node.name}`, role: 'agent', ...nothing, node }
  // The hub ends the stream of a node that is removed (fleet/hub/links.ts), which then reads its end.
  return { ...holder, again: finishes => (!finishes || nodes.isKnown(node.id) ? holder : null) }
}

/** A user of the hub has the rights of a named token with its role, or of a deploy token. */
function holderOfRelayed({ name, role, projects, seesScripts }: RelayedCaller): Holder {
  const projectId = role === 'project' ? (projects?.[0] ?? null) : null
  // Versions of answers contain the id: it stands for all that the answers depend on.
  const rights = sha256(Buffer.from(JSON.stringify([role, projects, seesScripts])))
    .toString('hex')
    .slice(0, 16)
  const token = role === 'project' ? undefined : { id: `hub-${rights}`, name }
  return { name, role, projectId, projects, token, seesScripts, session: undefined, isRelayed: true }
}

/**
 * Refuses a caller whom a rule does not admit: for a route that is found only after its caller was authorized by
 * another one. `hasTicket`: the caller has shown a ticket.
 */
export function checkRule(auth: Auth, caller: Caller, { hasTicket }: { hasTicket: boolean }): void {
  const rule: Rule = rules[auth]
  checkRole(rule, caller)
  if (!hasTicket || rule.ticket !== undefined) return
  throw unauthorized('A ticket is not accepted here: send the header "Authorization: Bearer <token>"')
}

function addressOf(client: ClientAddress): string | null {
  return client.local ? null : client.witnessed
}

function holderOfNamed(caller: TokenCaller, session?: FoundSession): Holder {
  const { name, role, projects, token, showScripts, isLate } = caller
  const seesScripts = showScripts || includesRole(role, 'operator')
  return { name, role, projectId: null, projects, token, seesScripts, session, provenAt: session?.provenAt, isLate }
}

function holderOfTicket(needs: Needs, ticket: TicketHolder | null, client: ClientAddress): Holder | null {
  if (ticket === null) return null
  const { checkAgain, ...found } = ticket
  const again = (finishes: boolean): Holder | null => {
    checkAgain?.(finishes)
    return holderOfFound(needs.named, { ...found, isQuiet: true }, client)
  }
  const holder = holderOfFound(needs.named, found, client)
  return holder && { ...holder, again }
}

/**
 * Returns the holder of the request's session cookie. Failures are not counted: a secret of 256 random bits cannot be
 * guessed, and a tab that has been open for a long time sends a session that has ended.
 */
function holderOfSession({ sessions, named }: Needs, rule: Rule, { headers, method, client }: Credentials): Holder {
  const session = rule.session || rule.others.includes('admin') ? sessions.find(headers) : null
  const holder = session === null ? null : holderOfFound(named, { tokenId: session.tokenId, session }, client)
  if (session === null || holder === null) {
    if (sessions.hasCookie(headers)) throw unauthorized('The session has ended. Sign in again')
    throw unauthorized('A token is required: send the header "Authorization: Bearer <token>"')
  }
  const found = { tokenId: session.tokenId, session }
  const again = (): Holder | null =>
    sessions.isAlive(session.id) ? holderOfFound(named, { ...found, isQuiet: true }, client) : null
  if (isFromOtherOrigin(headers)) {
    throw new Refusal(
      'forbidden',
      'foreign_origin',
      'The session cookie is not accepted: the request comes from a page of another origin'
    )
  }
  const isChange = method !== 'GET' && method !== 'HEAD'
  if (isChange && !isSameSecret(textOf(headers['x-svc-csrf']), session.csrf())) throw wrongCsrf()
  return { ...holder, again }
}

/** Returns the holder of a session, or of a ticket. Null: the named token has ended. */
function holderOfFound(
  named: Needs['named'],
  { tokenId, session, isQuiet }: TicketHolder & { isQuiet?: boolean },
  client: ClientAddress
): Holder | null {
  if (tokenId === null) return { ...admin, session, provenAt: session?.provenAt }
  const found = named.callerById(tokenId, addressOf(client), isQuiet)
  // A ticket that was issued to a bearer ends when its token gets a second factor.
  if (found === null || (found.needsSecondFactor && session === undefined)) return null
  return holderOfNamed(found, session)
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

/** A token and the address that sent it; null for the local socket. */
interface Sent {
  token: string
  address: string | null
}

/** Returns the holder of a token, even if the rule does not allow its role. Returns null for an unknown token. */
function holderOf(needs: Needs, rule: Rule, sent: Sent): Holder | null {
  const named = needs.named.callerOf(sent.token, sent.address, rule.late ? needs.hasUploads : undefined)
  const holder = named === null ? holderOfPlain(needs, rule, sent) : holderOfNamed(named)
  if (holder === null) return null
  const again = (finishes: boolean): Holder | null => {
    if (named === null) return holderOfPlain(needs, rule, sent)
    const now = needs.named.callerAgain(sent.token, sent.address, finishes)
    return now && holderOfNamed(now)
  }
  return { ...holder, again }
}

/** Returns the holder of a token that is not a named one. */
function holderOfPlain(needs: Needs, { others }: Rule, { token }: Sent): Holder | null {
  for (const role of others) {
    const holder = holders[role]?.(needs, token)
    if (holder) return holder
  }
  // For an upload, the admin token is as invalid as an unknown one: neither is a deploy token.
  if (!others.includes('admin') && others.includes('global')) return null
  return holders.project?.(needs, token) ?? holders.global?.(needs, token) ?? holders.metrics?.(needs, token) ?? null
}

/** Finds the holder of a token that is not a named one, for each role that has tokens. */
const holders: Partial<Record<Role, (needs: Needs, token: string) => Holder | null>> = {
  admin: (needs, token) => (needs.admin.verify(token) ? admin : null),

  global({ globalToken }, token) {
    const global = globalToken()
    if (global === '' || !isSameSecret(token, global)) return null
    return { name: 'global-deploy', role: 'global', ...nothing, mark: markOf(token) }
  },

  metrics({ metricsToken }, token) {
    const known = metricsToken()
    if (known === '' || !isSameSecret(token, known)) return null
    return { name: 'metrics', role: 'metrics', ...nothing }
  },

  project({ projectOf }, token) {
    // The index compares prefixes, so its timing reveals something. The result is compared again in constant time.
    const project = projectOf(token)
    if (project === undefined || !isSameSecret(token, project.token)) return null
    const { id } = project
    const mark = markOf(token)
    return {
      name: `project:${id}`,
      role: 'project',
      ...nothing,
      projectId: id,
      projects: [id],
      seesScripts: true,
      mark
    }
  }
}

function markOf(token: string): string {
  return sha256(Buffer.from(token)).toString('hex').slice(0, 16)
}

/** Returns who owns what a caller begins, for as long as its token is accepted. */
export function ownerOf({ token, name, mark }: Pick<Caller, 'token' | 'name' | 'mark'>): { owner: string } {
  return { owner: token?.id ?? (mark === undefined ? name : `${name}#${mark}`) }
}

/** What says whether tokens are accepted. */
interface Accepted {
  globalToken(): string
  /** Returns the deploy token of a project, by its id. */
  projectToken(id: string): string | undefined
  isRevoked(tokenId: string): boolean
}

/** Whether an owner (`ownerOf`) was revoked, or its deploy token replaced: it can finish nothing. */
export function hasEnded(owner: string, { globalToken, projectToken, isRevoked }: Accepted): boolean {
  const [name = '', mark] = owner.split('#')
  if (mark === undefined) return isRevoked(owner)
  const token = name.startsWith('project:') ? projectToken(name.slice('project:'.length)) : globalToken()
  return token === undefined || markOf(token) !== mark
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

function ended(cause?: unknown): Refusal {
  const sentence =
    'Nothing was changed: the token or session of the request was revoked, replaced or limited since it began'
  return new Refusal('unauthorized', 'token_revoked', sentence, { cause })
}

function unauthorized(sentence: string): Refusal {
  return new Refusal('unauthorized', 'unauthorized', sentence)
}

/*
 * The users of a hub whose requests the agent of this server sends to the socket of its data directory. A secret of
 * this process marks them, so that the operator at the same socket is not mistaken for one.
 */

/** A user of the hub. */
export type RelayedCaller = RelayedRequest['caller']

const secretHeader = 'svc-relay-secret'
const callerHeader = 'svc-relay-caller'

/** Returns the headers that name a user. */
export function relayedHeaders(secret: string, caller: RelayedCaller): Record<string, string> {
  return { [secretHeader]: secret, [callerHeader]: encodeURIComponent(JSON.stringify(caller)) }
}

/** Creates the function that finds the user of a request; null: the request is not relayed. */
export function createRelayedCallers(secret: string): (headers: RequestFacts['headers']) => RelayedCaller | null {
  return headers => {
    const [given, caller] = [headers[secretHeader], headers[callerHeader]]
    if (typeof given !== 'string' || typeof caller !== 'string' || !isSameSecret(given, secret)) return null
    const { name, role, projects, seesScripts } = JSON.parse(decodeURIComponent(caller)) as RelayedCaller
    if (!relayedRoles.includes(role)) throw new Error(`A relayed request has the unknown role "${role}"`)
    return { name: `hub:${name}`, role, projects, seesScripts }
  }
}
