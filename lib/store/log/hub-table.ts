/*
 * The list of hubs as this hub has it in memory, for what cannot wait for etcd: which hub signed a request. A watch brings each
 * change within milliseconds, so that a hub that was removed is refused at once. The probes (rounds.ts) bring the whole list again,
 * because a watch of a member that lost the others says nothing.
 */
import { elapsedOf, type Clock } from '../../base/clock.js'
import { endOfPrefix, type EtcdClient, type KeyValue } from './etcd/client.js'
import type { HubEntry, HubList, ListedHub } from './hub-list.js'
import type { ClusterKeys } from './keys.js'
import { pause } from './pause.js'

/** The hubs of the cluster, without asking etcd. */
export interface HubPeers {
  /** Returns a hub; null: it is none, or was removed. */
  find(name: string): ListedHub | null
  /** Whether etcd has confirmed the list a moment ago. */
  isFresh(): boolean
}

/** Dependencies of `createHubTable`. */
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
