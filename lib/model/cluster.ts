import type { Instant } from './scalars.js'

/** The state of the cluster, as one of its hubs sees it. @schema ClusterStatus */
export interface ClusterStatus {
  /** The name of the cluster. */
  name: string
  /** The hub that answers. */
  hub: string
  /** `alone`: it hears of no leader, so its reads may be old and nothing can be changed. */
  role: 'leader' | 'follower' | 'alone'
  /** The hub that leads; null: none that this hub hears of. */
  leader: ClusterHub | null
  /** How old a read of this hub may be. */
  staleSeconds: number
  /** The number of the last write that this hub has. */
  sequence: number
  /** Why this hub cannot follow or lead; null if it can. */
  problem: string | null
  /** The same for programs, such as `log_older` or `hub_removed`. */
  reason: string | null
  /** All hubs that have ever followed, by name, as etcd said last; empty if it never answered. */
  hubs: Array<
    ClusterHub & {
      /** The last write that the hub had when it was last seen. */
      applied: number
      /** How many writes it was behind this hub. */
      behind: number
      /** When it was last seen, by its own clock; null: never. */
      seenAt: Instant | null
    }
  >
}

/** What a hub knows of itself without asking anybody. */
export type HubState = Pick<ClusterStatus, 'role' | 'staleSeconds' | 'sequence' | 'problem' | 'reason'>

/** What the probe says of a hub to everybody: no names and no addresses. */
export type ClusterHealth = Pick<ClusterStatus, 'role' | 'staleSeconds'> & {
  /** Why the hub cannot follow or lead; absent if it can. */
  reason?: string
}

/** The cluster, as one of its hubs sees it. */
export interface ClusterView {
  state(): HubState
  /** Also asks for the other hubs. It does not fail if nobody answers. */
  status(): Promise<ClusterStatus>
  /** Gives the cluster a new key. `hubs` are those that the caller has seen: others do not get it. */
  rekey(hubs: readonly ClusterHub[]): Promise<void>
}

/** A hub and the address at which the others reach it. */
export interface ClusterHub {
  name: string
  url: string
}
