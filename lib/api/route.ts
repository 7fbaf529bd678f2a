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

/** A parameter of the route's path: the router gives every one that the path names. */
export function param(request: ApiRequest, name: string): string {
  const value = request.params[name]
  if (value === undefined) throw new Error(`The path of this route has no parameter "${name}"`)
  return value
}
