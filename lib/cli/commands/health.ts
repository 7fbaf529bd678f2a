import { Refusal } from '../../base/errors.js'
import { pause } from '../../base/clock.js'
import { locateHome } from '../../base/config/home.js'
import type { HealthReport } from '../../model/health.js'
import { type Client, createClient } from '../client/client.js'
import { localClient, runningOwner } from '../client/local.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle } from '../command.js'

/** An unhealthy server answers in the same shape (§4.8). */
const unhealthy = 503
/** A healthy server answers within milliseconds. */
const answerLimitMs = 5_000
const pollMs = 200

/** The command that checks the health of the server. */
export const commands = {
  health: defineCommand({
    options: {
      url: option('address', 'check the server at this address, instead of the one of this data directory'),
      wait: number('seconds', 'wait up to this long until the server is healthy', { default: 0, maximum: 3600 }),
      json: toggle('print {status, uptime, version, cluster?} as JSON')
    },
    details:
      'The exit code is 0 if the server is healthy, else 1. It is 0 for a hub that is cut off from its cluster, too: it answers\n' +
      'reads, and a restart would not help ("svc cluster status" ends with 1 then). Without --url, svc asks the server of this data\n' +
      'directory (SVC_HOME) through its local socket. This needs no port, prefix or token, but only works for the\n' +
      'user of the server.',
    examples: [
      ['health', 'check the server on this machine or in this container'],
      ['health --wait 30', 'wait up to 30 seconds for a server that starts'],
      ['health --url https://deploy.example.com/tools', 'check a server on another machine']
    ],
    async run({ options: { url, wait, json } }, context) {
      const untilMs = performance.now() + wait * 1000
      for (;;) {
        const found = await ask(url, context).catch(asRefusal)
        const isLast = performance.now() + pollMs > untilMs
        if (!(found instanceof Refusal) && (isAlive(found) || isLast)) {
          context.output.result(json, found, () => lineOf(found))
          return isAlive(found) ? exitCodes.success : exitCodes.failed
        }
        // Waiting does not cure a wrong address.
        if (found instanceof Refusal && (isLast || found.kind === 'usage')) throw found
        await pause(pollMs)
      }
    }
  })
} satisfies Family

function isAlive({ status }: HealthReport): boolean {
  return status === 'ok' || status === 'cut_off'
}

function lineOf({ status, version, uptime, cluster }: HealthReport): string {
  const line = `${status}, version ${version}, up for ${uptime} s`
  if (cluster === undefined) return line
  const { role, staleSeconds, reason } = cluster
  const why = reason === undefined ? '' : ` (${reason}: "svc cluster status" says more)`
  return `${line}, ${role}${role === 'leader' ? '' : `, reads are at most ${staleSeconds} s old`}${why}`
}

async function ask(url: string | undefined, context: Context): Promise<HealthReport> {
  const { env } = context
  const client = url === undefined ? await ownServer(context) : createClient({ serverUrl: url, token: null, env })
  return client.call('GET /api/health', { alsoStatus: unhealthy, answerLimitMs })
}

async function ownServer({ env, cwd }: Context): Promise<Client> {
  const home = locateHome(env, cwd)
  const path = await runningOwner(home)
  if (path !== null) return localClient(path, env)
  const advice = 'Start it with "svc serve", choose another data directory with SVC_HOME, or give an address with --url'
  throw new Refusal(
    'unavailable',
    'not_running',
    `No server is running on the data directory "${home.directory}". ${advice}`
  )
}

function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  throw error
}
