import type { Client } from '../../lib/cli/client/client.js'
import type { Route } from '../../lib/api/map/routes.js'

/** How routes are answered. A route that is not listed is a fault of the test. */
export type Answers = Partial<Record<Route, (given: never) => unknown>>

/** Returns a client of the command line that answers routes like this, without a server. */
export function stubClient(answers: Answers, more: Partial<Client> = {}): Client {
  const call = async (route: Route, given: unknown = {}): Promise<unknown> => {
    const answer = answers[route] as ((given: unknown) => unknown) | undefined
    if (answer === undefined) throw new Error(`The test has no answer to ${route}`)
    return answer(given)
  }
  return { address: 'https://a.test', call, ...more } as unknown as Client
}
