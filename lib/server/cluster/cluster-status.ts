import type { ClusterView, HubState } from '../../model/cluster.js'
import type { ListedHub } from '../../store/log/hub-list.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'

/** Dependencies of the status. */
export interface ClusterStatusNeeds {
  store: Pick<ReplicatedStore, 'role' | 'hubs'>
  cluster: { name: string; hub: { name: string; url: string } }
}

/** Maximum time to ask etcd for the hubs. */
const maxAskMs = 3000

/** Creates the view of the cluster that this hub has. */
export function createClusterView({ store, cluster }: ClusterStatusNeeds): Omit<ClusterView, 'rekey'> {
  let hubs: readonly ListedHub[] = []

  function state(): HubState {
    const { kind, staleMs, sequence, problem, reason } = store.role()
    return { role: kind, staleSeconds: Math.ceil(staleMs / 1000), sequence, problem, reason }
  }

  /** A hub that hears of no leader keeps the list that it has: an answer would not come, or come late. */
  async function look(): Promise<void> {
    if (store.role().kind === 'alone' && hubs.length > 0) return
    hubs = (await Promise.race([store.hubs(), later()]).catch(() => null)) ?? hubs
  }

  return {
    state,
    async status() {
      await look()
      const now = state()
      return {
        name: cluster.name,
        hub: cluster.hub.name,
        leader: store.role().leader,
        ...now,
        hubs: hubs.map(({ name, url, applied, seenAt }) => {
          const known = name === cluster.hub.name ? now.sequence : applied
          return { name, url, applied: known, behind: Math.max(0, now.sequence - known), seenAt }
        })
      }
    }
  }
}

function later(): Promise<null> {
  return new Promise(resolve => setTimeout(resolve, maxAskMs, null).unref())
}
