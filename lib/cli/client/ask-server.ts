import { Refusal } from '../../base/errors.js'
import { parseServerUrl } from '../../config/client-config.js'
import { defaultServerUrl } from '../../config/token-origin.js'
import { createClient } from './client.js'
import type { Context } from '../command.js'
import { ask } from '../terminal/prompt.js'

/** Status of a server that is starting. Its address is right, so it counts as an answer. */
const unhealthy = 503

/**
 * Asks for the address of a server until an svc server answers there. Accepts an address that the user enters twice,
 * since its server may not be running yet.
 */
export async function askServer({ host, env, output }: Context, known: string | undefined): Promise<string> {
  let suggested = known ?? defaultServerUrl
  let refused: string | null = null
  for (;;) {
    const answer = await ask(host, 'Server address', suggested)
    const address = parseServerUrl(answer)
    if (address === null) {
      output.note(`"${answer}" is not an address. Enter one like "https://deploy.example.com".`)
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
    await createClient({ serverUrl, token: null, env }).json({
      path: '/api/health',
      alsoStatus: unhealthy,
      answerLimitMs: 10_000
    })
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}
