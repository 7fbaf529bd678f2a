import { json } from '../http/core/route.js'
import type { ClusterStatus } from '../model/cluster.js'
import type { Handler } from './route.js'

/** Dependencies of the handler: the cluster of this server; undefined: it is a server alone. */
export interface ClusterNeeds {
  status: (() => Promise<ClusterStatus>) | undefined
}

/** Handler of `GET /api/cluster`. */
export function clusterHandlers({ status }: ClusterNeeds) {
  return {
    read: async () => json({ success: true, cluster: status === undefined ? null : await status() })
  } satisfies Record<string, Handler>
}
