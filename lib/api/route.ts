import type { Auth, Caller } from '../auth/bearer.js'
import { Refusal } from '../base/refusal.js'
import type { Proof } from '../auth/proof.js'
import { checkScope } from './scope.js'
import type { ProjectLookup, Scope } from './scope.js'
import type { BodyLimits, Method, Reply, Request, Route } from '../http/core/route.js'

/** A request to the API, with its authenticated caller. */
export type ApiRequest = Request<Caller>
/** Answers a request. It returns a reply or throws a `Refusal`; it writes nothing itself. */
export type Handler = (request: ApiRequest) => Reply | Promise<Reply>
/** A row of the table of routes. */
export interface ApiRoute extends Route<Auth, Caller> {
  /** The project that a request concerns. */
  scope: Scope
  /** Whether the user of a browser session must have given the secret lately. */
  isProven?: boolean
  /** Whether it concerns the target of the project on this server, which a project on nodes does not have. */
  isOnTarget?: boolean
  /** Whether users of a hub may ask a node for it, through the hub. */
  isRelayed?: boolean
}

/**
 * Returns a row of the table of routes. Without a rule and a scope it does not compile.
 * biome-ignore lint/complexity/useMaxParams: a row of the table of routes is on one line
 */
export function row(method: Method, path: string, auth: Auth, scope: Scope, handle: Handler): ApiRoute {
  return { method, path, auth, scope, handle }
}

/** Asks the user of a browser session for the token again if that was long ago (auth/proof.ts). */
export function proven(route: ApiRoute): ApiRoute {
  return { ...route, isProven: true }
}

/** Refuses (409 `project_is_placed`) projects that are placed on nodes: they have no target on this server. */
export function onTarget(route: ApiRoute): ApiRoute {
  return { ...route, isOnTarget: true }
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
  proof: Pick<Proof, 'check'>
  /** Refuses 409 `project_is_placed`. */
  refusePlaced(projectId: string): void
  version(tables: readonly string[]): string
}

/**
 * Completes the routes: each checks the scope of its caller, and the declared tables become versions. A version includes
 * the caller if its answers may differ from those of others.
 */
export function completed(
  routes: ReadonlyArray<ApiRoute | DependingRoute>,
  { lookup, version, proof, refusePlaced }: Completion
): ApiRoute[] {
  return routes.map(route => {
    const { depends, unless, ...plain } = { depends: undefined, unless: undefined, ...route }
    const handle: Handler = request => {
      if (request.actor.isRelayed && !route.isRelayed) throw notRelayed()
      checkScope(route.scope, request, lookup)
      if (route.isOnTarget) refusePlaced(param(request, 'id'))
      if (route.isProven) proof.check(request.actor.provenAt)
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
        if (unless?.(request)) return null
        const { token, projectId } = request.actor
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
