import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locateHome } from '../../lib/base/config/home.js'
import { type RunningAgent, startAgent } from '../../lib/server/agent.js'
import { layDatabase } from './new-database.js'
import type { Stage } from './server.js'
import { until } from './until.js'

/** A node of a hub: a real agent in this process, with a data directory of its own. */
export interface RealNode {
  id: string
  name: string
  /** The directory for targets. */
  sites: string
  agent: RunningAgent
  /** Stops the agent. The hub then has a node that is not connected. */
  stop(): Promise<void>
  /** Starts the agent again. */
  start(): Promise<void>
  /** Calls the API of the node itself. */
  local(method: string, path: string, body?: unknown): Promise<any>
}

/** Makes real agents nodes of a hub, and waits until they are connected. They end with the test. */
export async function startNodes(
  t: { teardown(work: () => unknown): void },
  stage: Pick<Stage, 'url' | 'server' | 'client'>,
  given: ReadonlyArray<{ name: string; labels?: Record<string, string> }>,
  { driftEveryMs = 60_000 } = {}
): Promise<RealNode[]> {
  const hub = await stage.server.services.fleet.hub()
  return Promise.all(
    given.map(async ({ name, labels = {} }) => {
      // `testdir` is removed before the agents have stopped.
      const directory = mkdtempSync(join(tmpdir(), 'svc-node-'))
      const sites = join(directory, 'sites')
      mkdirSync(sites)
      const { token } = await hub.enrollments.create({ name, labels, seconds: 600 }, { name: 'admin', ip: null })
      const start = (enroll?: string): Promise<RunningAgent> =>
        startAgent({
          home: locateHome({ SVC_HOME: join(directory, 'home') }, directory),
          hubs: [stage.url],
          enroll,
          name: 'node',
          environment: { PATH: process.env['PATH'] },
          cwd: directory,
          report: { info() {}, warn() {} },
          times: { reportEveryMs: 5000, driftEveryMs, waits: { jitterMs: 20, firstMs: 10, longestMs: 100 } }
        })
      await layDatabase(join(directory, 'home'))
      let agent = await start(token)
      t.teardown(async () => {
        await agent.stop({ wait: false })
        rmSync(directory, { recursive: true, force: true })
      })
      const seen = async () => (await stage.client.get(`/api/nodes/${name}`)).body.node
      const isConnected = async (): Promise<boolean> => (await seen()).isConnected
      await until(isConnected)
      return {
        id: (await seen()).id as string,
        name,
        sites,
        get agent() {
          return agent
        },
        async stop() {
          await agent.stop({ wait: false })
          await until(async () => !(await isConnected()))
        },
        async start() {
          agent = await start()
          await until(isConnected)
        },
        async local(method: string, path: string, body?: unknown) {
          const headers = { authorization: `Bearer ${agent.adminToken.current()}`, 'content-type': 'application/json' }
          const sent = body === undefined ? {} : { body: JSON.stringify(body) }
          return (await fetch(`${agent.url}${path}`, { method, headers, ...sent })).json()
        }
      }
    })
  )
}
