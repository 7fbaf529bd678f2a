import { Refusal } from '../base/refusal.js'
import type { ClientAddress, RequestFacts } from '../http/route.js'
import type { Actor } from '../model/audit.js'
import type { TicketPurpose } from './tickets.js'
import { isSameSecret } from './secret.js'

/** What a caller turned out to be. `local`: the operator on this machine, through the data directory's socket. */
export type Role = 'anonymous' | 'admin' | 'local' | 'project' | 'global'

/** The one a request acts for: as audit entries name them, and what they may. */
export interface Caller extends Actor {
  role: Role
  /** Of a project's token: the only project it opens. */
  projectId: string | null
}

interface Rule {
  roles: readonly Role[]
  /** A ticket of this purpose (`?ticket=`) is as good as the admin token. */
  ticket?: TicketPurpose
  /** The admin token may come as a subprotocol: where a browser cannot send headers, a program may lack the means, too. */
  subprotocol?: boolean
  /** Also only from an address of the setting `allowed_ips`. */
  fromAllowed?: boolean
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
  upload: { roles: ['project', 'global'], fromAllowed: true },
  terminal: { roles: ['admin', 'local'], ticket: 'terminal', subprotocol: true, fromAllowed: true },
  /** What whoever owns the data directory may do to it anyway; no token opens it. */
  local: { roles: ['local'] }
} as const satisfies Record<string, Rule>

export type Auth = keyof typeof rules

/** What of a request decides who calls. `client.local`: through the socket that only the owner can open. */
export type Credentials = Pick<RequestFacts, 'headers' | 'query' | 'client'>

export interface Bearer {
  /**
   * Refuses: 401 `unauthorized`, 403 `forbidden` for a known token of another kind, and for any where none opens,
   * 403 `address_not_allowed`.
   */
  authorise(auth: Auth, credentials: Credentials): Caller
}

interface Needs {
  admin: { verify(token: string): boolean }
  /** The project whose deploy token this is. */
  projectOf(token: string): { id: string; token: string } | undefined
  globalToken(): string
  tickets: { redeem(ticket: string, purpose: TicketPurpose): boolean }
  allowList: { check(address: string): void }
}

export function createBearer(needs: Needs): Bearer {
  const { allowList, tickets } = needs

  function callerFor(rule: Rule, credentials: Credentials): Caller {
    const { headers, client } = credentials
    if (rule.roles.includes('anonymous')) return anonymous(client)
    if (client.local && rule.roles.includes('local')) return localOperator
    if (rule.roles.every(role => role === 'local')) throw notLocal()
    if (rule.ticket !== undefined && headers.authorization === undefined) {
      const ticket = credentials.query.get('ticket')
      if (ticket !== null) return callerOfTicket(tickets.redeem(ticket, rule.ticket), ipOf(client))
    }
    const token = tokenOf(headers.authorization) ?? (rule.subprotocol ? tokenOfSubprotocol(headers['sec-websocket-protocol']) : null)
    return callerOfToken(needs, rule, token, ipOf(client))
  }

  return {
    authorise(auth, credentials) {
      const rule: Rule = rules[auth]
      const caller = callerFor(rule, credentials)
      if (rule.fromAllowed && !credentials.client.local) allowList.check(credentials.client.address)
      return caller
    }
  }
}

function notLocal(): Refusal {
  return new Refusal('forbidden', 'forbidden', 'Only the operator on the machine of the server may do this, through the command line')
}

const localOperator: Caller = { name: 'local', ip: null, role: 'local', projectId: null }

function anonymous(client: ClientAddress): Caller {
  return { name: 'anonymous', ip: ipOf(client), role: 'anonymous', projectId: null }
}

function ipOf(client: ClientAddress): string | null {
  return client.local ? null : client.address
}

function callerOfTicket(isGood: boolean, ip: string | null): Caller {
  if (!isGood) throw unauthorized('The ticket is not valid: it was used, has expired, or is for another purpose')
  return { name: 'admin', ip, role: 'admin', projectId: null }
}

function callerOfToken(needs: Needs, rule: Rule, token: string | null, ip: string | null): Caller {
  if (token === null) throw unauthorized('A token is needed: send the header "Authorization: Bearer <token>"')
  const { roles } = rule
  for (const role of roles) {
    const caller = holders[role]?.(needs, token, ip)
    if (caller) return caller
  }
  const opensOther = otherRoles(roles).some(role => holders[role]?.(needs, token, ip))
  // An upload says the same of the admin token as of an unknown one: neither is a deploy token.
  if (!opensOther || roles.includes('global')) throw unauthorized('The token is not valid here')
  throw new Refusal('forbidden', 'forbidden', 'This token does not open this: the admin token is needed')
}

function otherRoles(roles: readonly Role[]): Role[] {
  return (['project', 'global'] as const).filter(role => !roles.includes(role))
}

/** Whose token it is, of each kind that has one. */
const holders: Partial<Record<Role, (needs: Needs, token: string, ip: string | null) => Caller | null>> = {
  admin: ({ admin }, token, ip) => (admin.verify(token) ? { name: 'admin', ip, role: 'admin', projectId: null } : null),

  global({ globalToken }, token, ip) {
    const global = globalToken()
    if (global === '' || !isSameSecret(token, global)) return null
    return { name: 'global-deploy', ip, role: 'global', projectId: null }
  },

  project({ projectOf }, token, ip) {
    // The index finds by comparing prefixes; what it finds counts only after a comparison in constant time.
    const project = projectOf(token)
    if (project === undefined || !isSameSecret(token, project.token)) return null
    return { name: `project:${project.id}`, ip, role: 'project', projectId: project.id }
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
