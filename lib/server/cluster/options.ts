import type { EtcdOptions } from '../../store/log/etcd/connection.js'
import type { HubAddress } from '../../store/log/hub-list.js'
import type { ClusterSecrets } from './renewing.js'
import type { ReplicatedStore, ReplicatedStoreOptions } from '../../store/log/replicated-store.js'

/** The cluster of a hub: where its log is, and what only its hubs know. */
export interface ClusterOptions {
  /** The name of the cluster: part of every key in etcd. */
  name: string
  etcd: EtcdOptions
  /** This hub, and the URL at which the other hubs reach it. */
  hub: HubAddress
  /** 32 bytes: seals what etcd contains. */
  key: Buffer
  /** Keys that the cluster may have got meanwhile. */
  nextKeys?: readonly Buffer[]
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  hubCa?: string | undefined
  /** Path of that file; null: none. */
  hubCaFile?: string | null
  /** Whether hubs may talk to each other unencrypted over the network. */
  allowsHttp: boolean
  /** Reads the files of these options again. */
  reread?: () => Promise<ClusterSecrets>
  openStore: (options: ReplicatedStoreOptions) => Promise<ReplicatedStore>
  /** Whether this hub deploys to its own machine, too: it starts an agent in `node/` of the data directory. */
  hasNode: boolean
  /** Whether an earlier `svc cluster leave` did not finish: the hub enters the list of hubs again. */
  isLeaving?: boolean | undefined
}
