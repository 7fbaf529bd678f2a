import { Refusal } from '../base/refusal.js'
import { parseServerUrl } from '../config/client-config.js'
import { defaultServerUrl } from '../config/token-origin.js'
import { createClient } from './client.js'
import type { Context } from './command.js'
import { ask } from './prompt.js'

/** The server answers 503 while it starts; it is the right one all the same. */
const unhealthy = 503

/**
 * Asks for the address of a server until it is one that svc answers at. The same address twice is taken as it is: its
 * server may not run yet.
 */
export async function askServer({ host, env, output }: Context, known: string | undefined): Promise<string> {
  let suggested = known ?? defaultServerUrl
  let refused: string | null = null
  for (;;) {
    const answer = await ask(host, 'Address of the server', suggested)
    const address = parseServerUrl(answer)
    if (address === null) {
      output.note(`"${answer}" is not an address: it is like "https://deploy.example.com".`)
      continue
    }
    if (address === refused) return address
    const problem = await problemAt(address, env)
    if (problem === null) return address
    output.note(`${problem}.`)
    output.note('Enter another address, or the same one again to keep it.')
    refused = address
    suggested = address
  }
}

async function problemAt(serverUrl: string, env: Context['env']): Promise<string | null> {
  try {
    await createClient({ serverUrl, token: null, env }).json({ path: '/api/health', alsoStatus: unhealthy, answerLimitMs: 10_000 })
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}
