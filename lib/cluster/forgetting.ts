/* Removes a hub from the list of its cluster, when its machine is gone: `svc cluster forget`. */
import { Refusal } from '../base/errors.js'
import { createElection } from './election.js'
import { createEtcdClient } from './etcd/client.js'
import { EtcdConnection } from './etcd/connection.js'
import { explainEtcd } from './etcd/errors.js'
import { readHistory } from './history.js'
import { createHubList, type HubAddress } from './hub-list.js'
import { createSealing, keysOf } from './sealing.js'
import type { ReplicatedStoreOptions } from './replicated-store.js'

/** A hub that announced itself in this time is running. If the clocks differ, it announces itself again. */
const presentMs = 60_000

/** Removes a hub from the list. Refuses `hub_unknown`, `hub_running`, `cluster_missing`, `cluster_sealed`. */
export async function forgetHub(
  options: Pick<ReplicatedStoreOptions, 'etcd' | 'cluster' | 'clusterKey'> & { hub: HubAddress },
  name: string
): Promise<void> {
  const { cluster, hub } = options
  const connection = new EtcdConnection(options.etcd)
  try {
    const client = createEtcdClient(connection)
    const outside = { client, keys: keysOf(cluster), sealing: createSealing(options.clusterKey) }
    const found = await readHistory(outside)
    if (found === null) {
      const sentence = `Cannot remove the hub "${name}": etcd does not have the log of the cluster "${cluster}"`
      throw new Refusal('unavailable', 'cluster_missing', sentence)
    }
    const parts = { ...outside, history: found.id }
    const list = createHubList(parts)
    const hubs = await list.list()
    const listed = hubs.find(each => each.name === name)
    if (listed === undefined) {
      const names = hubs.map(each => `"${each.name}"`).join(', ')
      throw new Refusal('not_found', 'hub_unknown', `The cluster "${cluster}" has no hub "${name}". It has ${names}`)
    }
    const { keys } = await client.range({ key: outside.keys.leader })
    const { readLeader } = createElection({ ...parts, hub, leaseSeconds: 1, clock: { now: Date.now } })
    const isLeader = keys[0] !== undefined && readLeader(keys[0]).name === name
    const isSeen = listed.seenAt !== null && Date.now() - Date.parse(listed.seenAt) < presentMs
    if (isLeader || isSeen) {
      const sentence = `The hub "${name}" was seen ${isLeader ? 'as the leader' : 'in the last minute'}. Take it out of the cluster on its machine: svc cluster leave`
      throw new Refusal('conflict', 'hub_running', sentence)
    }
    await list.forget(name)
  } catch (error) {
    throw explainEtcd(error, `Cannot remove the hub "${name}"`)
  } finally {
    connection.close()
  }
}
