import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Reader } from '../../lib/core/store/database.js'
import {
  openReplicatedStore,
  type ReplicatedStore,
  type ReplicatedStoreOptions
} from '../../lib/cluster/replicated-store.js'
import type { EtcdOptions } from '../../lib/cluster/etcd/connection.js'
import { writeSetting } from '../../lib/core/store/tables/server.js'
import { ownHub } from '../support/hub-keys.js'
import { until } from '../support/until.js'

/** Shared parts of the tests of hubs: several hubs in this process, on one etcd. */

export interface HubStage {
  /** Opens a hub of this cluster. The first one begins the log. */
  open(name: string, options?: Partial<ReplicatedStoreOptions>): Promise<ReplicatedStore>
  /** The hubs that are open now, by name. */
  hubs: Map<string, ReplicatedStore>
  cluster: string
  clusterKey: Buffer
  directoryOf(name: string): string
  warnings: string[]
  /** Waits until one of the open hubs leads, and returns it. */
  leader(): Promise<ReplicatedStore>
}

let clusters = 0

/** A cluster of hubs. They are closed when the test ends. */
export function hubsOn(t: Test, etcd: EtcdOptions): HubStage {
  const top = t.testdir()
  const cluster = `h${process.pid}-${++clusters}`
  const clusterKey = randomBytes(32)
  const hubs = new Map<string, ReplicatedStore>()
  const warnings: string[] = []
  const directoryOf = (name: string) => join(top, name)
  t.teardown(() => Promise.all([...hubs.values()].map(hub => hub.close())))
  let isBegun = false

  async function* imageOf({ name }: { name: string }): AsyncGenerator<Uint8Array> {
    const from = hubs.get(name)
    if (from === undefined) throw new Error(`"${name}" is not there`)
    const image = await from.image()
    yield* image.pieces
    image.release()
  }

  return {
    hubs,
    cluster,
    clusterKey,
    directoryOf,
    warnings,
    async open(name, options = {}) {
      mkdirSync(directoryOf(name), { recursive: true })
      const begin = !isBegun
      isBegun = true
      const hub = await openReplicatedStore({
        directory: directoryOf(name),
        etcd,
        cluster,
        clusterKey,
        hub: ownHub({ name, url: `http://${name}.test` }),
        fetchImage: async from => imageOf(from),
        warn: sentence => void warnings.push(`${name}: ${sentence}`),
        begin,
        ...options
      })
      hubs.set(name, hub)
      return hub
    },
    leader: () => until(() => [...hubs.values()].find(hub => hub.role().kind === 'leader'), { what: 'a leader' })
  }
}

/** Writes a setting. */
export function put(hub: ReplicatedStore, key: string, value: string): Promise<void> {
  return hub.write(tx => writeSetting(tx, key, value))
}

/** Everything in a database but the time of its last checkpoint. */
export function contentOf(db: Reader): unknown {
  const tables = db.all("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
  return tables.map(({ name, sql }) => [
    sql,
    name === 'store' ? null : db.all(`SELECT * FROM "${String(name)}" ORDER BY 1, 2`.replace(' ORDER BY 1, 2', ''))
  ])
}
