import './directories.js'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../lib/base/clock.js'
import { type Home, locateHome } from '../../lib/base/config/home.js'
import { type RunningServer, serve } from '../../lib/server/serve.js'
import type { Project } from '../../lib/model/project.js'
import { createClient, type Client } from './client.js'
import { layDatabase } from './new-database.js'

export const adminToken = 'test-admin-token-0123456789'

export interface Stage {
  home: Home
  server: RunningServer
  /** The URL of the server with its base. */
  url: string
  /** A client with the admin token. */
  client: Client
  /** The directory for targets. */
  sites: string
  /** The options of the server. */
  environment: Record<string, string>
  /** Messages for the operator. */
  told: { info: string[]; warn: string[] }
  /** Returns a client with another token, or without one for null. */
  as(token: string | null): Client
  /** Creates a project whose target is `sites/<name>`. */
  createProject(name: string, fields?: Partial<Project>): Promise<Project>
  /** Stops the server and starts one on the same data directory. */
  restart(): Promise<void>
}

export interface StageOptions {
  base?: string
  host?: string
  clock?: Clock
  environment?: Record<string, string>
  /** The option `serve --no-terminal`. */
  terminal?: boolean
  /** The option `serve --allow-system-paths`. */
  allowSystemPaths?: boolean
  /** Settings in the form of `PUT /api/settings`. */
  settings?: Record<string, string>
}

/** The methods of a tap test that a stage needs. */
interface Test {
  testdir(): string
  teardown(work: () => unknown): void
}

/**
 * A server on loopback over a throw-away data directory, and a client for it: the stage of every end-to-end test.
 * `options.environment` holds ADMIN_TOKEN unless it says otherwise.
 */
export async function startServer(t: Test, options: StageOptions = {}): Promise<Stage> {
  const directory = t.testdir()
  const home = locateHome({ SVC_HOME: join(directory, 'home') }, directory)
  const sites = join(directory, 'sites')
  mkdirSync(sites)
  const told = { info: [] as string[], warn: [] as string[] }

  const environment = { PATH: process.env['PATH'] as string, ADMIN_TOKEN: adminToken, ...options.environment }
  const start = (): Promise<RunningServer> =>
    serve({
      home,
      port: 0,
      cwd: directory,
      environment,
      report: { info: line => void told.info.push(line), warn: line => void told.warn.push(line) },
      ...(options.base === undefined ? {} : { base: options.base }),
      ...(options.host === undefined ? {} : { host: options.host }),
      ...(options.terminal === undefined ? {} : { terminal: options.terminal }),
      ...(options.allowSystemPaths === undefined ? {} : { allowSystemPaths: options.allowSystemPaths }),
      ...(options.clock === undefined ? {} : { clock: options.clock })
    })

  await layDatabase(home.directory)
  let server = await start()
  t.teardown(() => server.stop({ wait: false }))
  const as = (token: string | null): Client => createClient(() => server.url, token)
  const client = createClient(() => server.url, server.adminToken.current())
  if (options.settings) await client.put('/api/settings', options.settings)

  return {
    home,
    sites,
    environment,
    told,
    client,
    as,
    get server() {
      return server
    },
    get url() {
      return server.url
    },
    async createProject(name, fields = {}) {
      const reply = await client.post('/api/projects', { name, deployPath: join(sites, name), ...fields })
      if (reply.status !== 200) throw new Error(`The project was not created: ${reply.text}`)
      const { project } = reply.body as { project: Project }
      const { preDeployScript, postDeployScript, postDeployAsync } = fields
      const scripts = { preDeployScript, postDeployScript, postDeployAsync }
      if (!Object.values(scripts).some(Boolean)) return project
      return ((await client.put(`/api/projects/${project.id}`, scripts)).body as { project: Project }).project
    },
    async restart() {
      await server.stop({ wait: true })
      server = await start()
    }
  }
}

/** The keys of a data directory's config.json. */
export function configOf(home: Home): Record<string, unknown> {
  return JSON.parse(readFileSync(home.configFile, 'utf8')) as Record<string, unknown>
}
