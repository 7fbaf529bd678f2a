/*
 * What each hub says of itself in etcd: its address, its public key, how far it is, and which schema its program has. The
 * leader keeps the log for the hubs in this list, and hubs believe only those whose key is in it. The times are for people only:
 * nothing is decided by them.
 *
 * A hub enters the list when it begins a cluster or joins one, and then only changes its own entry. So a hub that was removed
 * does not come back by itself. Who can write in etcd can also write here: an entry that cannot be opened or read is nobody's.
 */

import { parsePublicKey } from '../base/digests.js'
import { type Clock, elapsedOf } from '../base/clock.js'
import type { AskOptions } from './etcd/connection.js'
import { endOfPrefix, type EtcdClient, type KeyValue } from './etcd/client.js'
import type { ClusterKeys, Sealing } from './sealing.js'
import { pause } from './signals.js'

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

export interface HubEntry {
  name: string
  /** The create revision of its key. */
  createRevision: number
  /** What it says; null: it cannot be opened or read. */
  hub: Announcement | null
}

export type HubList = ReturnType<typeof createHubList>

/** What reads and writes below the keys of a cluster. */
export interface LogPlace {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
}

interface HubListNeeds extends LogPlace {
  history: string
}

/** Entries beyond this length are not read. */
const maxEntryBytes = 8 * 1024
/** Hubs beyond this number are not read. */
const maxHubs = 100
const maxUrlLength = 2000

export function createHubList({ client, keys, sealing, history }: HubListNeeds) {
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

  const read = (found: ReadonlyArray<Pick<KeyValue, 'key' | 'value' | 'createRevision'>>): HubEntry[] =>
    found.slice(0, maxHubs).map(({ key, value, createRevision }) => {
      return { name: key.slice(keys.hubs.length), createRevision, hub: open(key, value) }
    })

  return {
    /** Enters a hub, or replaces its entry: it begins the cluster, or joins it. */
    async register(hub: Announcement, options?: AskOptions): Promise<void> {
      const { key, value } = seal(hub)
      await client.put(key, value, options)
    },
    /** Changes the entry of a hub. Returns false if the entry with this create revision is not there any more. */
    async announce(hub: Announcement, createRevision: number, options?: AskOptions): Promise<boolean> {
      const { key, value } = seal(hub)
      const { succeeded } = await client.transact(
        { when: [{ key, createRevision }], then: [{ put: key, value }] },
        options
      )
      return succeeded
    },
    /** Returns all hubs that can be read, by name. */
    async list(options?: AskOptions): Promise<Announcement[]> {
      const { keys: found } = await client.range({ key: keys.hubs, end: endOfPrefix(keys.hubs) }, options)
      return read(found).flatMap(({ hub }) => hub ?? [])
    },
    /** Returns the entries of the list, from what was found in etcd. */
    read,
    /** Removes a hub, and with it its key. */
    forget: (name: string): Promise<void> => client.delete(keys.hub(name))
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

/*
 * The list of hubs as this hub has it in memory, for what cannot wait for etcd: which hub signed a request. A watch brings each
 * change within milliseconds, so that a hub that was removed is refused at once. The probes (rounds.ts) bring the whole list again,
 * because a watch of a member that lost the others says nothing.
 */

/** The hubs of the cluster, without asking etcd. */
export interface HubPeers {
  /** Returns a hub; null: it is none, or was removed. */
  find(name: string): ListedHub | null
  /** Whether etcd has confirmed the list a moment ago. */
  isFresh(): boolean
}

export interface HubTableNeeds {
  client: EtcdClient
  keys: ClusterKeys
  list: Pick<HubList, 'read'>
  clock: Clock
  /** The name of this hub. */
  own: string
  /** Called after each change. */
  onChange: () => void
}

/** The list in memory. */
export interface HubTable extends HubPeers {
  /** The entry of this hub; null: there is none; undefined: the list is not known yet. */
  own(): HubEntry | null | undefined
  /** Takes over the whole list as of a revision of etcd. */
  learn(found: readonly KeyValue[], asOf: { revision: number; askedAtMs: number }): void
  /** Reads the list again: etcd has gone back, so a watch from the revision that was known would be silent. */
  restart(): void
  /** Reads the list and follows it until the signal aborts. */
  run(signal: AbortSignal): Promise<void>
}

/** A list that etcd has not confirmed for this long is not believed. */
const freshMs = 10_000
const pauseMs = 250

/** Creates a table without entries. */
export function createHubTable({ client, keys, list, clock, own, onChange }: HubTableNeeds): HubTable {
  const range = { key: keys.hubs, end: endOfPrefix(keys.hubs) }
  let entries: Map<string, HubEntry> | null = null
  let confirmedAtMs = -Infinity
  let revision = 0
  let watching: AbortController | null = null

  function take(found: readonly KeyValue[], asOf: { revision: number; askedAtMs: number }): void {
    entries = new Map(list.read(found).map(entry => [entry.name, entry]))
    revision = asOf.revision
    confirmedAtMs = Math.max(confirmedAtMs, asOf.askedAtMs)
    onChange()
  }

  async function follow(signal: AbortSignal): Promise<void> {
    const askedAtMs = elapsedOf(clock)
    const found = await client.range(range, { signal })
    take(found.keys, { revision: found.revision, askedAtMs })
    await client.watch(
      { ...range, from: found.revision + 1 },
      {
        signal,
        take(events) {
          for (const event of events) {
            const [entry] = list.read([event])
            if (entry === undefined || event.modRevision < revision) continue
            if (event.isDeleted) entries?.delete(entry.name)
            else entries?.set(entry.name, entry)
            revision = event.modRevision
          }
          onChange()
        }
      }
    )
  }

  return {
    find: name => entries?.get(name)?.hub ?? null,
    isFresh: () => elapsedOf(clock) - confirmedAtMs <= freshMs,
    own: () => (entries === null ? undefined : (entries.get(own) ?? null)),
    learn(found, asOf) {
      // A probe may be answered after the watch has reported something newer.
      if (asOf.revision >= revision) take(found, asOf)
    },
    restart() {
      revision = 0
      watching?.abort()
    },
    async run(signal) {
      const end = (): void => watching?.abort()
      signal.addEventListener('abort', end)
      while (!signal.aborted) {
        watching = new AbortController()
        await follow(watching.signal).catch(() => {})
        await pause(pauseMs, signal)
      }
      signal.removeEventListener('abort', end)
    }
  }
}
