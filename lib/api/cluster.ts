import { line, list, object, readFields } from '../base/fields.js'
import { Refusal } from '../base/errors.js'
import { json } from '../http/core/route.js'
import type { AuditEvent } from '../model/audit.js'
import type { ClusterView } from '../model/cluster.js'
import type { Handler } from './route.js'

/** Dependencies of the handlers. */
export interface ClusterNeeds {
  /** The cluster of this server; undefined: it is a server alone. */
  cluster: Pick<ClusterView, 'status' | 'rekey'> | undefined
  audit: { record(event: AuditEvent): Promise<void> }
}

/** The body of `POST /api/cluster/key`. */
export const rekeyFields = {
  /** The hubs that get the key: all that `GET /api/cluster` lists. */
  hubs: list(object({ name: line({ min: 1, max: 100 }), url: line({ min: 1, max: 2000 }) }), { min: 1, max: 100 })
}

/** Handlers of the cluster. */
export function clusterHandlers({ cluster, audit }: ClusterNeeds) {
  return {
    /** `GET /api/cluster`. */
    read: async () => json({ success: true, cluster: cluster === undefined ? null : await cluster.status() }),

    /** `POST /api/cluster/key`: gives the cluster a new key. */
    rekey: async request => {
      const { hubs } = readFields(await request.json(), rekeyFields)
      if (cluster === undefined) {
        throw new Refusal('not_found', 'no_cluster', 'This server is not a hub of a cluster')
      }
      await cluster.rekey(hubs)
      const names = hubs.map(({ name }) => name)
      await audit.record({ action: 'cluster.rekey', actor: request.actor, target: names.join(', ') })
      return json({ success: true, hubs: names })
    }
  } satisfies Record<string, Handler>
}
