import type { Auth, Caller } from '../auth/bearer.js'
import { refuseDroppedWish } from '../base/fields.js'
import { Refusal } from '../base/errors.js'
import type { Proof } from '../auth/proof.js'
import { checkScope, type ProjectLookup, type Scope } from './scope.js'
import type { BodyLimits, Method, Reply, Request, Route } from '../http/core/route.js'

/** A request to the API, with its authenticated caller. */
export type ApiRequest = Request<Caller>
/** Answers a request. It returns a reply or throws a `Refusal`; it writes nothing itself. */
export type Handler = (request: ApiRequest) => Reply | Promise<Reply>
/**
 * What a request can do. Every route says it. The user of a browser session must have given the secret lately for all that
 * is more than `reads`, `signs` and `works`: a browser that was left open must not be enough for it (auth/proof.ts).
 *
 * - `reads`: shows what the caller may see, and no secret
 * - `signs`: signs in or out. What needs a secret there is in the request itself
 * - `works`: changes something that brings no command, no secret and no right
 * - `node`: what a node of the fleet asks with its own key
 * - `commands`: stores or runs a command
 * - `secrets`: answers a secret, or makes a file readable
 * - `rights`: changes rights, accounts or settings
 * - `moves`: takes the data away, or brings some in
 * - `places`: decides which machine gets what
 * - `depends`: one of these, by its body or answer. The handler asks `Proof` (model/commands.ts says what is a command)
 */
const powers = {
  reads: false,
  signs: false,
  works: false,
  node: false,
  depends: false,
  commands: true,
  secrets: true,
  rights: true,
  moves: true,
  places: true
} as const
export type Power = keyof typeof powers

/** Whether requests with this power always need a proof. */
export function needsProof(power: Power): boolean {
  return powers[power]
}

/** A row of the table of routes. */
export interface ApiRoute extends Route<Auth, Caller> {
  /** The project that a request concerns. */
  scope: Scope
  /** What a request can do. */
  power: Power
  /** Whether it concerns the target of the project on this server, which a project on nodes does not have. */
  isOnTarget?: boolean
  /** Whether `dryRun` in the query is read. Every other route that may change something refuses it there. */
  hasTrial?: boolean
  /** Whether users of a hub may ask a node for it, through the hub. */
  isRelayed?: boolean
}

/**
 * Returns a row of the table of routes. Without a rule, a scope and a power it does not compile.
 * biome-ignore lint/complexity/useMaxParams: a row of the table of routes is on one line
 */
export function row(method: Method, path: string, auth: Auth, scope: Scope, power: Power, handle: Handler): ApiRoute {
  return { method, path, auth, scope, power, handle }
}

/** Refuses (409 `project_is_placed`) projects that are placed on nodes: they have no target on this server. */
export function onTarget(route: ApiRoute): ApiRoute {
  return { ...route, isOnTarget: true }
}

/** Lets a request say `dryRun` in the query. */
export function withTrial(route: ApiRoute): ApiRoute {
  return { ...route, hasTrial: true }
}

/** Sets the limits of the body of a route. */
export function taking(body: BodyLimits, route: ApiRoute): ApiRoute {
  return { ...route, body }
}

/** In a cluster, the leader answers: what it answers is in its memory, or the request may write. */
export function byLeader(route: ApiRoute): ApiRoute {
  return { ...route, answeredBy: 'leader' }
}

/** In a cluster, the leader answers if there is one. Without one, any hub answers what it knows. */
export function byLeaderIfAny(route: ApiRoute): ApiRoute {
  return { ...route, answeredBy: 'leader_if_any' }
}

/** Lets users of a hub ask a node for it, through the hub (`GET /api/nodes/:node/at/…`). */
export function relayed<R extends ApiRoute>(route: R): R {
  return { ...route, isRelayed: true }
}

/** Allows pages of any other origin to call the route. */
export function crossOrigin(route: ApiRoute): ApiRoute {
  return { ...route, cors: true }
}

/** Tables of the store. If SQLite changes a row by itself (cascade), the table of the causing row counts too. */
export type Table =
  | 'projects'
  | 'projectTags'
  | 'categories'
  | 'tags'
  | 'deployments'
  | 'audit'
  | 'locks'
  | 'logSources'
  | 'settings'
  | 'sessions'
  | 'tokens'

/**
 * Declares that the answers of a route depend on these tables of the store and on nothing else: not on the time, a disk
 * or the memory of a service. The server then answers 304 to a client that has the current answer, without calling
 * the handler. `unless` excludes requests for which this is not true.
 */
export function depending(
  depends: readonly Table[],
  route: ApiRoute,
  unless?: (request: ApiRequest) => boolean
): DependingRoute {
  return { ...route, depends, unless }
}

/** What completes the routes. */
interface Completion {
  lookup: ProjectLookup
  proof: Pick<Proof, 'check' | 'isRecent'>
  /** Refuses 409 `project_is_placed`. */
  refusePlaced(projectId: string): void
  version(tables: readonly string[]): string
  /** Whether results wait in memory for the database. Then the tables do not cover what answers contain. */
  hasUnwritten(): boolean
}

/**
 * Completes the routes: each checks the scope of its caller, and the declared tables become versions. A version includes
 * the caller if its answers may differ from those of others.
 */
export function completed(
  routes: ReadonlyArray<ApiRoute | DependingRoute>,
  { lookup, version, hasUnwritten, proof, refusePlaced }: Completion
): ApiRoute[] {
  return routes.map(route => {
    const { depends, unless, ...plain } = { depends: undefined, unless: undefined, ...route }
    const handle: Handler = request => {
      if (request.actor.isRelayed && !route.isRelayed) throw notRelayed()
      checkScope(route.scope, request, lookup)
      if (route.isOnTarget) refusePlaced(param(request, 'id'))
      if (route.method !== 'GET' && !route.hasTrial) for (const name of request.query.keys()) refuseDroppedWish(name)
      if (needsProof(route.power)) proof.check(request.actor.provenAt)
      return route.handle(request)
    }
    if (depends === undefined) return { ...plain, handle }
    // One list per route, because the store caches its versions by list.
    const ofNamed = [...depends, 'tokens']
    return {
      ...plain,
      handle,
      version(request) {
        if (request.actor.isRelayed && !route.isRelayed) throw notRelayed()
        checkScope(route.scope, request, lookup)
        if (unless?.(request) || hasUnwritten()) return null
        const { token, projectId, provenAt } = request.actor
        // An answer that depends on the proof must not be taken for the one from before it.
        if (route.power === 'depends' && !proof.isRecent(provenAt)) return null
        if (token !== undefined) return `${version(ofNamed)}-${token.id}`
        return projectId === null ? version(depends) : `${version(depends)}-${projectId}`
      }
    }
  })
}

/** Returns the 404 for what a node does not tell the users of its hub. */
export function notRelayed(): Refusal {
  return new Refusal('not_found', 'not_relayed', 'This is not available through the hub. Ask the node itself')
}

interface DependingRoute extends ApiRoute {
  depends: readonly Table[]
  unless: ((request: ApiRequest) => boolean) | undefined
}

/** Returns a parameter of the path. Throws if the path of the route does not contain it, which is a bug. */
export function param(request: ApiRequest, name: string): string {
  const value = request.params[name]
  if (value === undefined) throw new Error(`The path of this route has no parameter "${name}"`)
  return value
}
