import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/clock.js'
import { openHubKey, writeClusterKeys } from '../../config/cluster-file.js'
import { forwardKeyOf, type HubSigner } from '../../http/outgoing/forwarded.js'
import type { OwnHub } from '../../store/log/hub-list.js'
import type { ReplicatedStoreOptions } from '../../store/log/replicated-store.js'
import type { ClusterOptions } from './options.js'

/** Who this hub is for the others: what it publishes, and what it signs with. */
export interface HubIdentity {
  hub: OwnHub
  signer: HubSigner
}

/** Returns the options of the store that concern the key of the cluster: it is kept in cluster.key. */
export function clusterKeysFor(
  directory: string,
  { key, nextKeys }: Pick<ClusterOptions, 'key' | 'nextKeys'>
): Pick<ReplicatedStoreOptions, 'clusterKey' | 'nextKeys' | 'keepKeys'> {
  return { clusterKey: key, nextKeys, keepKeys: keys => writeClusterKeys(directory, keys) }
}

const bootBytes = 12

/** Opens the key of the hub of a data directory; the first call creates it. Each call is a start of its own. */
export async function openHubIdentity(
  directory: string,
  { hub, key: clusterKey }: Pick<ClusterOptions, 'hub' | 'key'>,
  clock: Clock
): Promise<HubIdentity> {
  const { key, publicKey } = await openHubKey(directory)
  return {
    hub: { name: hub.name, url: hub.url, publicKey, boot: randomBytes(bootBytes).toString('base64url') },
    signer: { hub: hub.name, key, legacyKey: forwardKeyOf(clusterKey), clock }
  }
}
