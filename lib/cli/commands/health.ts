import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../../base/refusal.js'
import { locateHome } from '../../config/home.js'
import type { HealthReport } from '../../model/health.js'
import { createClient, type Client } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { localClient, runningOwner } from '../local.js'

/** An unhealthy server answers in the same shape (§4.8). */
const unhealthy = 503
/** A server that is well answers within milliseconds. */
const answerLimitMs = 5_000
const pollMs = 200

export const command = defineCommand({
  operands: {},
  options: {
    url: { type: 'text', value: 'address', help: 'ask the server at this address, instead of the one of this data directory' },
    wait: { type: 'count', value: 'seconds', default: 0, maximum: 3600, help: 'wait so long for it to be well' },
    json: { type: 'switch', help: 'print {status, uptime, version} as JSON' }
  },
  details:
    'Exit code 0 when the server says that it is well, else 1. The server of this data directory (SVC_HOME) is asked\n' +
    'through its socket there, so neither its port, its prefix nor a token need be known, and only its own user may.',
  examples: [
    ['health', 'in a container, or where the server runs'],
    ['health --wait 30', 'after a start'],
    ['health --url https://deploy.example.com/tools', 'from elsewhere']
  ],
  async run({ options: { url, wait, json } }, context) {
    const { output } = context
    const untilMs = performance.now() + wait * 1000
    for (;;) {
      const found = await ask(url, context).catch(asRefusal)
      const isLast = performance.now() + pollMs > untilMs
      if (!(found instanceof Refusal) && (found.status === 'ok' || isLast)) {
        if (json) output.json(found)
        else output.print(`${found.status}, version ${found.version}, up for ${found.uptime} s`)
        return found.status === 'ok' ? exitCodes.success : exitCodes.failed
      }
      // Waiting mends no wrong address.
      if (found instanceof Refusal && (isLast || found.kind === 'usage')) throw found
      await sleep(pollMs)
    }
  }
})

async function ask(url: string | undefined, context: Context): Promise<HealthReport> {
  const { env } = context
  const client = url === undefined ? await ownServer(context) : createClient({ serverUrl: url, token: null, env })
  return client.json<HealthReport>({ path: '/api/health', alsoStatus: unhealthy, answerLimitMs })
}

async function ownServer({ env, cwd }: Context): Promise<Client> {
  const home = locateHome(env, cwd)
  const path = await runningOwner(home)
  if (path !== null) return localClient(path, env)
  const instead = 'start one ("svc serve"), name another with SVC_HOME, or an address with --url'
  throw new Refusal('unavailable', 'not_running', `No server runs on the data directory "${home.directory}": ${instead}`)
}

function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  throw error
}
