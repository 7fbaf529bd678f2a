/* Typed requests: the map of routes (lib/api/map) says what a route takes and answers. */
import type { Answered, Arguments, Given, Route } from '../../lib/api/map/call.js'
import { routePath } from '../shared/api.js'
import type { Client, Method, SendOptions } from './client.js'

/** What a request has besides what its route takes. */
type Options = Omit<SendOptions, 'body'>

/** Asks a route. Rejects as `Client.ask` does. */
export type Call = <R extends Route>(route: R, ...given: Arguments<R, Options>) => Promise<Answered<R>>

/** Returns the function that asks routes. */
export function createCall({ ask }: Pick<Client, 'ask'>): Call {
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

/** The header that contains the deployment's id in a streaming answer, before its first line. */
export const deployIdHeader = 'x-svc-deploy-id'

/**
 * Starts a deployment, and returns its id when it is recorded. The stream is cancelled: the page of the deployment
 * follows it by its id. The deployment continues.
 */
export async function startDeployment<R extends Route>(
  { send }: Pick<Client, 'send'>,
  route: R,
  given: Given<R>
): Promise<string> {
  const { body } = given as SendOptions
  const response = await send('POST', placeOf(route, given), { headers: { accept: 'application/x-ndjson' }, body })
  await response.body?.cancel()
  return response.headers.get(deployIdHeader) ?? ''
}
