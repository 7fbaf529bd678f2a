import type { ClusterStatus } from '../../model/cluster.js'
import type { ListedHub } from '../../store/log/hub-list.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'

/** Dependencies of the status. */
export interface ClusterStatusNeeds {
  store: Pick<ReplicatedStore, 'role' | 'hubs'>
  cluster: { name: string; hub: { name: string; url: string } }
}

/** Maximum time to ask etcd for the hubs. */
const maxAskMs = 3000

/** Returns the state of the cluster as this hub sees it. It does not fail if etcd does not answer. */
export async function readClusterStatus({ store, cluster }: ClusterStatusNeeds): Promise<ClusterStatus> {
  const hubs = await Promise.race([store.hubs(), later()]).catch((): ListedHub[] => [])
  const { kind, leader, staleMs, sequence, problem } = store.role()
  return {
    name: cluster.name,
    hub: cluster.hub.name,
    role: kind,
    leader,
    staleSeconds: Math.ceil(staleMs / 1000),
    sequence,
    problem,
    hubs: hubs.map(({ name, url, applied, seenAt }) => {
      const known = name === cluster.hub.name ? sequence : applied
      return { name, url, applied: known, behind: Math.max(0, sequence - known), seenAt }
    })
  }
}

function later(): Promise<ListedHub[]> {
  return new Promise(resolve => setTimeout(resolve, maxAskMs, []).unref())
}
