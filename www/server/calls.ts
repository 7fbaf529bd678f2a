import type { Answered, Arguments, Given, Route } from '../../lib/api/map/call.js'
import { routePath } from '../shared/api.js'

/** The HTTP methods of the API. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface SendOptions {
  /** Sent as JSON, or unchanged if it is a Blob. */
  body?: unknown
  headers?: Record<string, string>
  /** A status besides 2xx that is not a refusal. */
  alsoGood?: number
  signal?: AbortSignal | undefined
}

/** Sends a request, and returns the JSON of its answer. */
type Ask = <T>(method: Method, path: string, options?: SendOptions) => Promise<T>

/** Asks a route of the map (lib/api/map), which says what it takes and answers. Rejects as `Client.ask` does. */
export type Call = <R extends Route>(
  route: R,
  ...given: Arguments<R, Omit<SendOptions, 'body'>>
) => Promise<Answered<R>>

/** Returns the function that asks routes. */
export function createCall(ask: Ask): Call {
  return (route, ...[given = {}]) => {
    const { body, headers, alsoGood, signal } = given as SendOptions
    const options: SendOptions = {
      ...(body !== undefined && { body }),
      ...(headers && { headers }),
      ...(alsoGood !== undefined && { alsoGood }),
      ...(signal && { signal })
    }
    return ask(route.split(' ')[0] as Method, placeOf(route, given as object), options)
  }
}

/** Returns the path of a route below the base, with its parameters and its query. */
export function placeOf<R extends Route>(route: R, given: Partial<Given<R>>): string {
  const values = given as Record<string, unknown>
  const path = routePath(route, values).slice(1)
  const query = Object.entries((values['query'] ?? {}) as Record<string, unknown>)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)])
  return query.length === 0 ? path : `${path}?${new URLSearchParams(query)}`
}

/** Returns the header that limits a change to one state of a record. Null sets no limit. */
export function ifMatch(tag: string | null): Record<string, string> {
  return tag === null ? {} : { 'if-match': `"${tag}"` }
}
