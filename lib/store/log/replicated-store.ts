import type { Clock } from '../../base/clock.js'
import type { Store } from '../database.js'

/*
 * The store of a hub in a cluster: the redo log is on etcd, and every hub has the database in memory. The leader writes;
 * the others follow the log and answer reads.
 */

/** A hub of the cluster, as the others know it. */
export interface HubAddress {
  name: string
  url: string
}

/** What this hub is at the moment. */
export interface HubRole {
  /**
   * `leader`: it writes. `follower`: it follows the log of the leader. `alone`: it does not hear of a leader, so its
   * reads may be old and writes are refused.
   */
  kind: 'leader' | 'follower' | 'alone'
  leader: HubAddress | null
  /** Time since this hub knew that it had every acknowledged write; 0 for the leader. */
  staleMs: number
  /** The number of the last write in the memory of this hub that is durable. */
  sequence: number
  /** Why this hub cannot follow the log or lead, in a sentence; null if it can. */
  problem: string | null
}

/** A hub in the list of the cluster. */
export interface ListedHub extends HubAddress {
  /** The number of the last write that it had when it was last seen. */
  applied: number
  /** When it was last seen, by its own clock. */
  seenAt: string | null
}

/**
 * The store of a hub. `write` refuses 503 `not_leader` on a follower, and 503 `no_leader` if nobody can lead, because
 * there is no majority. It refuses 503 `write_unknown` if etcd did not say in time whether the write was accepted: then
 * it may appear later. `state().ok` is false while this hub cannot write or follow.
 */
export interface ReplicatedStore extends Store {
  role(): HubRole
  /** Calls the listener when `kind`, `leader` or `problem` changes. Returns a function that ends the calls. */
  onRole(listener: (role: HubRole) => void): () => void
  /** Resolves when `role().sequence` has reached the number, or rejects with the reason of the signal. */
  reached(sequence: number, signal: AbortSignal): Promise<void>
  /** Returns the hubs that have ever followed the log, by name. Refuses `no_leader` if etcd does not answer. */
  hubs(): Promise<ListedHub[]>
  /** Removes a hub that will not come back, so that the log is no longer kept for it. */
  forgetHub(name: string): Promise<void>
  /** Gives the leadership up if this hub has it: another hub leads then. Called by `close`, too. */
  resign(): Promise<void>
}

/** Where etcd is, and how to sign in. */
export interface EtcdOptions {
  /** Addresses of its members: `https://e1:2379`. */
  endpoints: string[]
  /** PEM of the authority that signed the certificates of the members. No other is trusted. */
  ca?: string
  /** PEM of a certificate and key of this hub, if etcd requires one. */
  cert?: string
  key?: string
  user?: string
  password?: string
}

/** Options of `openReplicatedStore`. */
export interface ReplicatedStoreOptions {
  /** An existing directory that the caller owns. */
  directory: string
  etcd: EtcdOptions
  /** Name of the cluster: part of every key in etcd. Lower-case letters, digits and hyphens. */
  cluster: string
  /** 32 bytes: the key that seals every value in etcd. */
  clusterKey: Buffer
  hub: HubAddress
  /**
   * Creates the log in etcd with the database of this directory as its beginning (`svc cluster init`). Refuses
   * `cluster_exists` if there is already one. Otherwise a missing log is refused (`cluster_missing`).
   */
  begin?: boolean
  /**
   * Returns a database as a SQLite file from another hub: what `image()` returns there. It is needed by a new hub, and by
   * one that was away for so long that the log no longer contains what it lacks.
   */
  fetchImage?: (from: HubAddress, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>
  clock?: Clock
  warn?: (sentence: string) => void
  /** Called with a sentence while the opening waits, for another hub or for etcd. */
  onWaiting?: (sentence: string) => void
  signal?: AbortSignal
}
