import type { Auth, Caller } from '../auth/bearer.js'
import type { BodyLimits, Method, Reply, Request, Route } from '../http/route.js'

export type ApiRequest = Request<Caller>
export type Handler = (request: ApiRequest) => Reply | Promise<Reply>
export type ApiRoute = Route<Auth, Caller>

/** A row of the API's table. */
export function row(method: Method, path: string, auth: Auth, handle: Handler): ApiRoute {
  return { method, path, auth, handle }
}

/** A row with limits of its own for the body. */
export function taking(body: BodyLimits, route: ApiRoute): ApiRoute {
  return { ...route, body }
}

/** A row that pages of any other origin may call. */
export function crossOrigin(route: ApiRoute): ApiRoute {
  return { ...route, cors: true }
}

/** Tables of the store; what SQLite changes by itself with a row needs the table of that row, too. */
export type Table = 'projects' | 'projectTags' | 'categories' | 'tags' | 'deployments' | 'audit' | 'logSources' | 'settings' | 'sessions'

/**
 * A row whose answers depend on these tables of the store, and on nothing else: not on the time, a disk,
 * or what a service keeps in memory. `unless`:
 * but for these requests.
 */
export function depending(depends: readonly Table[], route: ApiRoute, unless?: (request: ApiRequest) => boolean): DependingRoute {
  return { ...route, depends, unless }
}

/** Gives the rows their versions. What a client may see depends on who it is. */
export function versioned(routes: ReadonlyArray<ApiRoute | DependingRoute>, version: (tables: readonly string[]) => string): ApiRoute[] {
  return routes.map(route => {
    if (!('depends' in route)) return route
    const { depends, unless, ...plain } = route
    return {
      ...plain,
      version: request => (unless?.(request) ? null : `${version(depends)}${request.actor.projectId === null ? '' : `-${request.actor.projectId}`}`)
    }
  })
}

interface DependingRoute extends ApiRoute {
  depends: readonly Table[]
  unless: ((request: ApiRequest) => boolean) | undefined
}

/** A parameter of the route's path: the router gives every one that the path names. */
export function param(request: ApiRequest, name: string): string {
  const value = request.params[name]
  if (value === undefined) throw new Error(`The path of this route has no parameter "${name}"`)
  return value
}
