import { randomBytes } from 'node:crypto'
import { EtcdConnection, type EtcdOptions } from '../../lib/cluster/etcd/connection.js'
import { createEtcdClient, type EtcdClient } from '../../lib/cluster/etcd/client.js'
import { EtcdLog } from '../../lib/cluster/etcd-log.js'
import { beginHistory, type History, newHistoryId } from '../../lib/cluster/history.js'
import { type ClusterKeys, createSealing, keysOf, type Sealing } from '../../lib/cluster/sealing.js'

/** Shared parts of the tests of the log: a log on etcd with a leader's key that tests set. */

export interface LogStage {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  history: History
  log: EtcdLog
  /** Writes the leader's key, as a hub that was elected does. The log then writes as that leader. */
  lead(): Promise<number>
  /** Another log on the same keys, that leads with this revision, and has read the log. */
  another(revision: number | null): Promise<EtcdLog>
  close(): void
}

let clusters = 0

/** A new log of a cluster of its own on this etcd, with its leader. */
export async function aLog(options: EtcdOptions): Promise<LogStage> {
  const connection = new EtcdConnection(options)
  const client = createEtcdClient(connection)
  const keys = keysOf(`c${process.pid}-${++clusters}`)
  const sealing = createSealing(randomBytes(32))
  const history: History = { id: newHistoryId(), after: 0 }
  await beginHistory({ client, keys, sealing }, history)
  let revision: number | null = null
  const needs = { client, keys, sealing, history: history.id }
  const stage = {
    client,
    keys,
    sealing,
    history,
    log: new EtcdLog({ ...needs, leading: () => revision }),
    async another(other: number | null) {
      const log = new EtcdLog({ ...needs, leading: () => other })
      await readAll(log)
      return log
    },
    async lead() {
      await client.delete(keys.leader)
      const done = await client.transact({ when: [], then: [{ put: keys.leader, value: Buffer.from('a hub') }] })
      return (revision = done.revision)
    },
    close: () => connection.close()
  }
  await stage.lead()
  await readAll(stage.log)
  return stage
}

async function readAll(log: EtcdLog): Promise<void> {
  await log.catchUp(0, { signal: new AbortController().signal, take() {} })
}
