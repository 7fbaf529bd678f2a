import './directories.js'
import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { locateHome } from '../../lib/base/config/home.js'
import { type RunningServer, serve } from '../../lib/server/serve.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { putSecret } from '../../lib/core/store/tables/fleet.js'
import { createClient, type Client } from './client.js'
import { freePort } from './free-port.js'
import { copyHome, createMemoryCluster, type MemoryCluster } from './memory-cluster.js'
import { layDatabase } from './new-database.js'
import { adminToken } from './server.js'

/** A hub of a test. */
export interface Hub {
  name: string
  url: string
  directory: string
  server: RunningServer
  /** A client with the admin token. */
  client: Client
  told: { info: string[]; warn: string[] }
  start(): Promise<void>
}

export interface Hubs {
  cluster: MemoryCluster
  hubs: Hub[]
  sites: string
}

/** The key of every cluster of a test. */
export const testKey = createHash('sha256').update('the key of the test').digest()

interface Test {
  testdir(): string
  teardown(work: () => unknown): void
}

/** Starts hubs of one cluster in this process, on loopback. The first one leads. */
export async function startHubs(t: Test, count = 2, options: { base?: string } = {}): Promise<Hubs> {
  const directory = t.testdir()
  const sites = join(directory, 'sites')
  mkdirSync(sites)
  const first = join(directory, 'h1')
  mkdirSync(first, { mode: 0o700 })
  await seed(first)
  const cluster = createMemoryCluster()
  const hubs: Hub[] = []
  for (let number = 1; number <= count; number++) {
    const name = `h${number}`
    const home = join(directory, name)
    if (number > 1) copyHome(first, home)
    hubs.push(await createHub({ cluster, name, directory: home, base: options.base ?? '' }))
  }
  for (const hub of hubs) await hub.start()
  t.teardown(async () => {
    for (const hub of hubs) await hub.server.stop({ wait: false }).catch(() => {})
  })
  cluster.lead('h1')
  return { cluster, hubs, sites }
}

async function seed(directory: string): Promise<void> {
  await layDatabase(directory)
  const store = await openStore({ directory })
  await store.write(tx => putSecret(tx, 'adminToken', adminToken))
  await store.close()
}

interface HubNeeds {
  cluster: MemoryCluster
  name: string
  directory: string
  base: string
}

async function createHub({ cluster, name, directory, base }: HubNeeds): Promise<Hub> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}${base}`
  const told = { info: [] as string[], warn: [] as string[] }
  const hub = { name, url, directory, told, client: createClient(() => url, adminToken) } as Hub
  hub.start = async () => {
    hub.server = await serve({
      home: locateHome({ SVC_HOME: directory }, directory),
      port,
      base,
      environment: {},
      cwd: directory,
      report: { info: line => void told.info.push(line), warn: line => void told.warn.push(line) },
      cluster: {
        name: 'test',
        // Nobody listens there, as if etcd were away. Without an address the connection would never pause.
        etcd: { endpoints: ['http://127.0.0.1:1'] },
        hub: { name, url },
        key: testKey,
        openStore: cluster.open,
        allowsHttp: false,
        hasNode: false
      }
    })
  }
  return hub
}
