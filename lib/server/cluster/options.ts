import type { EtcdOptions } from '../../store/log/etcd/connection.js'
import type { HubAddress } from '../../store/log/hub-list.js'
import type { ReplicatedStore, ReplicatedStoreOptions } from '../../store/log/replicated-store.js'

/** The cluster of a hub: where its log is, and what only its hubs know. */
export interface ClusterOptions {
  /** The name of the cluster: part of every key in etcd. */
  name: string
  etcd: EtcdOptions
  /** This hub, and the URL at which the other hubs reach it. */
  hub: HubAddress
  /** 32 bytes: seals what etcd contains, and signs what hubs send to each other. */
  key: Buffer
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  hubCa?: string | undefined
  /** Path of that file; null: none. */
  hubCaFile?: string | null
  openStore: (options: ReplicatedStoreOptions) => Promise<ReplicatedStore>
  /** Whether this hub deploys to its own machine, too: it starts an agent in `node/` of the data directory. */
  hasNode: boolean
}
