/*
 * `svc cluster rekey`, on the hub that leads. Each hub gets the new key in a request that the leader signs, over the connection on
 * which hubs pass the database to each other, and keeps it beside the old one. When all have it, the leader seals what is in etcd with
 * it (store/log/rekeying.ts). If a hub does not take it, nothing has changed: what the hubs keep for nothing goes with the next key.
 */
import { Refusal } from '../../base/errors.js'
import { newClusterKey } from '../../config/cluster-file.js'
import type { HubClient } from '../../http/outgoing/hub-request.js'
import type { ClusterHub } from '../../model/cluster.js'
import type { ListedHub } from '../../store/log/hub-list.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'

/** Dependencies of `rekeyCluster`. */
export interface RekeyNeeds {
  store: Pick<ReplicatedStore, 'hubs' | 'expectKey' | 'rekey'>
  client: Pick<HubClient, 'json'>
  /** The name of this hub. */
  own: string
}

/** The time of one hub to keep the key. */
const keepMs = 15_000

/**
 * Gives the cluster a new key, which `hubs` get: those that the operator has seen. Refuses `hubs_changed`, `hub_without_key`, and
 * what the store refuses.
 */
export async function rekeyCluster({ store, client, own }: RekeyNeeds, hubs: readonly ClusterHub[]): Promise<void> {
  const listed = await store.hubs()
  const isSeen = ({ name, url }: ListedHub): boolean => hubs.some(seen => seen.name === name && seen.url === url)
  if (listed.length !== hubs.length || !listed.every(isSeen)) {
    throw new Refusal(
      'conflict',
      'hubs_changed',
      'The hubs of the cluster have changed meanwhile. Run the command again'
    )
  }
  const key = newClusterKey()
  await store.expectKey(key)
  for (const hub of listed) {
    if (hub.name !== own) await give(client, hub, key)
  }
  await store.rekey(key, listed)
}

async function give(client: Pick<HubClient, 'json'>, hub: ListedHub, key: Buffer): Promise<void> {
  const body = { key: key.toString('hex') }
  const signal = AbortSignal.timeout(keepMs)
  await client.json(hub, { method: 'POST', target: '/api/hub/key', body, signal }).catch((error: unknown) => {
    const why = signal.aborted ? `it did not answer in ${keepMs / 1000} s` : (error as Error).message
    const sentence = `The key was not replaced: the hub "${hub.name}" did not take the new one: ${why}. Start it with this version of svc, or remove it: svc cluster forget ${hub.name}`
    throw new Refusal('conflict', 'hub_without_key', sentence, { cause: error })
  })
}
