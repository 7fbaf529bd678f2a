/*
 * What each hub says of itself in etcd: its address, how far it is, and which schema its program has. The leader keeps the
 * log for the hubs in this list. The times are for people only: nothing is decided by them.
 */
import type { AskOptions } from './etcd/connection.js'
import { endOfPrefix } from './etcd/client.js'
import type { EtcdClient } from './etcd/client.js'
import type { ClusterKeys } from './keys.js'
import type { Sealing } from './sealing.js'

/** A hub of the cluster, as the others know it. */
export interface HubAddress {
  name: string
  url: string
}

/** A hub in the list of the cluster. */
export interface ListedHub extends HubAddress {
  /** The number of the last write that it had when it was last seen. */
  applied: number
  /** When it was last seen, by its own clock. */
  seenAt: string | null
}

/** A hub as it announced itself. */
export interface Announcement extends ListedHub {
  /** The schema version that its program supports. */
  schema: number
}

/** The hubs of one cluster. */
export interface HubList {
  announce(hub: Announcement, options?: AskOptions): Promise<void>
  /** Returns all hubs by name. Refuses `cluster_sealed`. */
  list(options?: AskOptions): Promise<Announcement[]>
  forget(name: string): Promise<void>
}

interface HubListNeeds {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  history: string
}

/** Creates the list. */
export function createHubList({ client, keys, sealing, history }: HubListNeeds): HubList {
  return {
    announce(hub, options) {
      const key = keys.hub(hub.name)
      return client.put(key, sealing.seal(Buffer.from(JSON.stringify(hub)), { key, history }), options)
    },
    async list(options) {
      const { keys: found } = await client.range({ key: keys.hubs, end: endOfPrefix(keys.hubs) }, options)
      return found.map(({ key, value }) => JSON.parse(sealing.open(value, { key, history }).toString()) as Announcement)
    },
    forget: name => client.delete(keys.hub(name))
  }
}
