/*
 * What each hub says of itself in etcd: its address, its public key, how far it is, and which schema its program has. The
 * leader keeps the log for the hubs in this list, and hubs believe only those whose key is in it. The times are for people only:
 * nothing is decided by them.
 *
 * A hub enters the list when it begins a cluster or joins one, and then only changes its own entry. So a hub that was removed
 * does not come back by itself. Who can write in etcd can also write here: an entry that cannot be opened or read is nobody's.
 */
import type { AskOptions } from './etcd/connection.js'
import { endOfPrefix, type EtcdClient, type KeyValue } from './etcd/client.js'
import { parsePublicKey } from '../../base/signing-key.js'
import type { ClusterKeys } from './keys.js'
import type { Sealing } from './sealing.js'

/** A hub of the cluster, as the others know it. */
export interface HubAddress {
  name: string
  url: string
}

/** This hub, as it enters the list. */
export interface OwnHub extends HubAddress {
  /** The 32 bytes of its public key, in base64. */
  publicKey: string
  /** Names its present start: requests of other hubs are meant for this one. */
  boot: string
}

/** A hub in the list of the cluster. */
export interface ListedHub extends HubAddress {
  /** As in `OwnHub`; null: it runs an older svc, which has no key. */
  publicKey: string | null
  boot: string | null
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

/** The entry of a hub in etcd. */
export interface HubEntry {
  name: string
  /** The create revision of its key. */
  createRevision: number
  /** What it says; null: it cannot be opened or read. */
  hub: Announcement | null
}

/** The hubs of one cluster. */
export interface HubList {
  /** Enters a hub, or replaces its entry: it begins the cluster, or joins it. */
  register(hub: Announcement, options?: AskOptions): Promise<void>
  /** Changes the entry of a hub. Returns false if the entry with this create revision is not there any more. */
  announce(hub: Announcement, createRevision: number, options?: AskOptions): Promise<boolean>
  /** Returns all hubs that can be read, by name. */
  list(options?: AskOptions): Promise<Announcement[]>
  /** Returns the entries of the list, from what was found in etcd. */
  read(found: ReadonlyArray<Pick<KeyValue, 'key' | 'value' | 'createRevision'>>): HubEntry[]
  /** Removes a hub, and with it its key. */
  forget(name: string): Promise<void>
}

interface HubListNeeds {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  history: string
}

/** Entries beyond this length are not read. */
const maxEntryBytes = 8 * 1024
/** Hubs beyond this number are not read. */
const maxHubs = 100
const maxUrlLength = 2000

/** Creates the list. */
export function createHubList({ client, keys, sealing, history }: HubListNeeds): HubList {
  function seal(hub: Announcement): { key: string; value: Buffer } {
    const key = keys.hub(hub.name)
    return { key, value: sealing.seal(Buffer.from(JSON.stringify(hub)), { key, history }) }
  }

  function open(key: string, value: Buffer): Announcement | null {
    if (value.length > maxEntryBytes) return null
    try {
      const hub = announcementOf(JSON.parse(sealing.open(value, { key, history }).toString()))
      return hub !== null && keys.hub(hub.name) === key ? hub : null
    } catch {
      return null
    }
  }

  const read: HubList['read'] = found =>
    found.slice(0, maxHubs).map(({ key, value, createRevision }) => {
      return { name: key.slice(keys.hubs.length), createRevision, hub: open(key, value) }
    })

  return {
    async register(hub, options) {
      const { key, value } = seal(hub)
      await client.put(key, value, options)
    },
    async announce(hub, createRevision, options) {
      const { key, value } = seal(hub)
      const { succeeded } = await client.transact(
        { when: [{ key, createRevision }], then: [{ put: key, value }] },
        options
      )
      return succeeded
    },
    async list(options) {
      const { keys: found } = await client.range({ key: keys.hubs, end: endOfPrefix(keys.hubs) }, options)
      return read(found).flatMap(({ hub }) => hub ?? [])
    },
    read,
    forget: name => client.delete(keys.hub(name))
  }
}

/** Returns what a hub says of itself, and nothing else; null if it is malformed. */
function announcementOf(given: unknown): Announcement | null {
  const { name, url, applied, seenAt, schema, publicKey = null, boot = null } = (given ?? {}) as Record<string, unknown>
  const isRight =
    isHubAddress({ name, url }) &&
    isCount(applied) &&
    isCount(schema) &&
    (seenAt === null || (typeof seenAt === 'string' && !Number.isNaN(Date.parse(seenAt)))) &&
    (publicKey === null || (typeof publicKey === 'string' && parsePublicKey(publicKey) !== null)) &&
    (boot === null || typeof boot === 'string')
  return isRight ? ({ name, url, applied, seenAt, schema, publicKey, boot } as Announcement) : null
}

/** Whether the name and the URL of a hub can be used. */
export function isHubAddress({ name, url }: { name: unknown; url: unknown }): boolean {
  if (typeof name !== 'string' || name === '' || typeof url !== 'string' || url.length > maxUrlLength) return false
  try {
    return /^https?:$/.test(new URL(url).protocol)
  } catch {
    return false
  }
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
