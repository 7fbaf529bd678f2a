import { obedientAgent, type Behavior, type ObedientAgent } from './obedient-agent.js'
import { startServer } from './server.js'
import { svc, type Ended, type SvcOptions } from './svc.js'

/** A server with a project, and nodes that answer without files. */
export async function startFleet(
  t: Parameters<typeof startServer>[0],
  names: readonly string[] = [],
  behaviors: Readonly<Record<string, Behavior>> = {}
) {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const shop = await stage.createProject('shop')
  const agents = new Map<string, ObedientAgent>()
  for (const name of names) {
    const behavior = behaviors[name]
    const agent = await obedientAgent(t, { url: stage.url, hub }, { name, ...(behavior && { behavior }) })
    agents.set(name, agent)
  }
  if (names.length > 0)
    await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: names.map(node => ({ node })) })
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: stage.server.adminToken.current() }
  /** Runs a command as a process, with the admin token. */
  const run = (line: string, options: Partial<SvcOptions> = {}): Promise<Ended> =>
    svc(line.split(' '), { cwd: stage.sites, ...options, env: { ...env, ...options.env } })
  return { stage, hub, shop, agents, env, run }
}
