/*
 * The log of a cluster: a write on a leader with etcd of three members (TLS, authentication, all on this machine) against
 * a write of a server without a cluster, in turns within one run; and reads of a hub against reads of a server.
 *
 *   node cluster.js
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Store } from '../../lib/core/store/database.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { createEtcdClient } from '../../lib/cluster/etcd/client.js'
import { EtcdConnection } from '../../lib/cluster/etcd/connection.js'
import { openReplicatedStore } from '../../lib/cluster/replicated-store.js'
import { insertDeployment, listDeployments } from '../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aProject } from '../core/store/stage.js'
import { compare, machine, median, sized } from '../support/bench.js'
import { startEtcd, withoutEtcd, etcdVersion, type EtcdCluster } from '../support/etcd.js'
import { ownHub } from '../support/hub-keys.js'
import { until } from '../support/until.js'

const rowsPresent = sized(2000, 50)
const singleWrites = sized(200, 5)
const writers = sized(32, 4)
const writesEach = sized(10, 2)
const reads = sized(200, 5)
/** Size of the line of one deployment in the log, sealed. */
const lineBytes = 1400
let rows = 0

function insert(store: Store): Promise<void> {
  const id = `dep_${(rows++).toString(36).padStart(16, '0')}`
  return store.write(tx => insertDeployment(tx, aDeployment({ id })))
}

async function fill(store: Store): Promise<void> {
  await store.write(tx => {
    insertProject(tx, aProject())
    for (let n = 0; n < rowsPresent; n++) insertDeployment(tx, aDeployment({ id: `dep_present${n}` }))
  })
}

/** Returns the median duration of one write, one after the other. */
async function single(store: Store): Promise<number> {
  const each: number[] = []
  for (let n = 0; n < singleWrites; n++) {
    const fromMs = performance.now()
    await insert(store)
    each.push(performance.now() - fromMs)
  }
  return median(each)
}

/** Returns the median duration of a put of the same size, without conditions, by the same client. */
async function plain({ options, leader }: EtcdCluster): Promise<number> {
  const at = Math.max(0, await leader())
  const connection = new EtcdConnection({ ...options, endpoints: [options.endpoints[at] as string] })
  const client = createEtcdClient(connection)
  const value = randomBytes(lineBytes)
  const each: number[] = []
  for (let n = 0; n < singleWrites; n++) {
    const fromMs = performance.now()
    await client.put(`/svc/plain/${n}`, value)
    each.push(performance.now() - fromMs)
  }
  connection.close()
  return median(each)
}

async function many(store: Store): Promise<number> {
  const fromMs = performance.now()
  const writer = async () => {
    for (let n = 0; n < writesEach; n++) await insert(store)
  }
  await Promise.all(Array.from({ length: writers }, writer))
  return (writers * writesEach * 1000) / (performance.now() - fromMs)
}

function read(store: Store): number {
  const fromMs = performance.now()
  for (let n = 0; n < reads; n++) listDeployments(store, { limit: 20 })
  return ((performance.now() - fromMs) * 1000) / reads
}

async function bench(): Promise<void> {
  const top = mkdtempSync(fileURLToPath(new URL('../../bench-cluster-', import.meta.url)))
  const etcd = await startEtcd({ size: 3, directory: join(top, 'etcd') })
  const directoryOf = (name: string) => {
    mkdirSync(join(top, name))
    return join(top, name)
  }
  try {
    console.log(`${machine()}, ${etcdVersion()}, three members on this machine`)
    const server = await openStore({ directory: directoryOf('server') })
    const hub = await openReplicatedStore({
      directory: directoryOf('hub'),
      etcd: etcd.options,
      cluster: 'bench',
      clusterKey: randomBytes(32),
      hub: ownHub({ name: 'h1', url: 'http://h1.test' }),
      begin: true
    })
    await until(() => hub.role().kind === 'leader')
    for (const store of [server, hub]) await fill(store)
    await compare({
      name: 'one writer: a write of a deployment',
      unit: 'ms, median of a write',
      rounds: 7,
      contestants: {
        'hub on etcd': () => single(hub),
        server: () => single(server),
        'a put to etcd, nothing else': () => plain(etcd)
      },
      goals: [{ beside: 'server', atMost: 6 }]
    })
    await compare({
      name: `${writers} writers at once`,
      unit: 'writes a second',
      contestants: { 'hub on etcd': () => many(hub), server: () => many(server) }
    })
    await compare({
      name: 'reading the newest 20 deployments',
      unit: 'us',
      contestants: { 'hub on etcd': () => read(hub), server: () => read(server) },
      goals: [{ beside: 'server', atMost: 1.1 }]
    })
    await hub.close()
    await server.close()
  } finally {
    await etcd.close()
    rmSync(top, { recursive: true, force: true })
  }
}

const reason = withoutEtcd()
if (reason === false) await bench()
else console.log(`left out: ${reason}`)
