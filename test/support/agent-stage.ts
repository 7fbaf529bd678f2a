import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locateHome } from '../../lib/base/config/home.js'
import { type AgentOptions, type RunningAgent, startAgent } from '../../lib/server/agent.js'
import { until } from './until.js'
import { startFakeHub, type FakeHub } from './fake-hub.js'
import { layDatabase } from './new-database.js'

/** An agent in this process, and its fake hub. */
export interface AgentStage {
  hub: FakeHub
  agent: RunningAgent
  /** The directory for targets. */
  sites: string
  home: string
  said: string[]
  /** Stops the agent and starts it on the same data directory. */
  restart(): Promise<void>
}

/** Starts an agent whose waits are short, closed after the test. */
export async function startAgentStage(
  t: { teardown(work: () => unknown): void },
  { hub: given, ...options }: Partial<AgentOptions> & { hub?: FakeHub } = {}
): Promise<AgentStage> {
  // `testdir` is removed before the agent has stopped.
  const directory = mkdtempSync(join(tmpdir(), 'svc-agent-'))
  const sites = join(directory, 'sites')
  mkdirSync(sites)
  const hub = given ?? (await startFakeHub(t))
  const said: string[] = []
  const home = locateHome({ SVC_HOME: join(directory, 'home') }, directory)
  const start = (enroll?: string): Promise<RunningAgent> =>
    startAgent({
      home,
      hubs: [hub.url],
      enroll,
      name: 'node',
      environment: { PATH: process.env['PATH'] },
      cwd: directory,
      report: { info: line => void said.push(line), warn: line => void said.push(line) },
      times: { reportEveryMs: 5000, driftEveryMs: 60_000, waits: { jitterMs: 20, firstMs: 10, longestMs: 100 } },
      ...options
    })
  await layDatabase(home.directory)
  let agent = await start(hub.token())
  t.teardown(async () => {
    await agent.stop({ wait: false })
    rmSync(directory, { recursive: true, force: true })
  })
  await until(() => said.some(line => line.startsWith('Connected to the hub')))
  return {
    hub,
    sites,
    home: home.directory,
    said,
    get agent() {
      return agent
    },
    async restart() {
      await agent.stop({ wait: true })
      agent = await start()
    }
  }
}
