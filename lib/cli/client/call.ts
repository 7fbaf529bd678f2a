/* Typed requests: the map of routes (api/map) says what a route takes and answers. */
import type { Answered, Arguments, Given, Route } from '../../api/map/call.js'
import { routePath } from '../../base/shared/api.js'
import type { Call as Request, Client } from './client.js'

type Options = Omit<Request, 'method' | 'path' | 'query' | 'json' | 'body'>

/** Asks a route. Rejects as `Client.json` does. */
export type Call = <R extends Route>(route: R, ...given: Arguments<R, Options>) => Promise<Answered<R>>

/** Returns the function that asks routes. */
export function createCall(client: Client): Call {
  return (route, ...[given]) => client.json(requestOf(route, (given ?? {}) as never))
}

/** Returns the request to a route. */
export function requestOf<R extends Route>(route: R, given: Given<R> & Options): Request {
  const { query, body, ...rest } = given as Options & { query?: Record<string, unknown>; body?: unknown }
  const texts = Object.entries(query ?? {}).map(([name, value]) => [name, value?.toString()])
  return {
    ...rest,
    method: route.split(' ')[0] as NonNullable<Request['method']>,
    path: routePath(route, given as Record<string, unknown>),
    query: Object.fromEntries(texts) as Record<string, string | undefined>,
    ...(body !== undefined && { json: body })
  }
}
