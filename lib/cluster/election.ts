/*
 * The election of the leader. The leader is the hub whose key exists in etcd; the key has a lease, and ends with it. Two
 * hubs cannot both create it, because etcd creates it only if it does not exist. Its create revision is the term of the
 * leader: every append compares it (etcd-log.ts), so a leader whose lease has ended can write nothing, even if it has not
 * noticed. No clock is compared with another one: a hub measures only how long ago it renewed its own lease.
 */
import { type Clock, elapsedOf } from '../base/clock.js'
import type { EtcdClient, KeyValue } from './etcd/client.js'
import { EtcdError } from './etcd/connection.js'
import type { ClusterKeys, Sealing } from './sealing.js'
import { type HubAddress, isHubAddress } from './hub-list.js'
import { DamagedLog } from '../core/store/redo.js'

/** A hub that leads, as its key says. */
export interface Leader extends HubAddress {
  /** The create revision of its key. */
  revision: number
}

/** The leadership of this hub. */
export interface Term {
  revision: number
  /** Whether the lease is surely still valid, measured on this machine. */
  readonly isValid: boolean
  /** Aborts when the lease has ended, or could not be renewed in time. */
  readonly lost: AbortSignal
  /** Ends the term without waiting for etcd. Nothing that this hub appends from now on is accepted for long. */
  abandon(): void
  /** Gives the leadership up: the key is removed, and another hub can lead at once. */
  resign(): Promise<void>
}

export interface ElectionNeeds {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  history: string
  hub: HubAddress
  leaseSeconds: number
  clock: Clock
}

export type Election = ReturnType<typeof createElection>

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return null
  }
}

/** A lease is renewed this often in its time. */
const renewals = 4

/** Creates the election. It sends nothing before `campaign`. */
export function createElection(needs: ElectionNeeds) {
  const { client, keys, sealing, history, hub, leaseSeconds, clock } = needs
  const leaseMs = leaseSeconds * 1000
  const place = { key: keys.leader, history }

  function begin(lease: string, revision: number, grantedAtMs: number): Term {
    let renewedAtMs = grantedAtMs
    const lost = new AbortController()
    const isValid = () => !lost.signal.aborted && elapsedOf(clock) - renewedAtMs < leaseMs
    const timer = setInterval(() => void renew(), leaseMs / renewals).unref()
    let isRenewing = false

    function abandon(): void {
      clearInterval(timer)
      lost.abort()
    }

    async function renew(): Promise<void> {
      if (!isValid()) return abandon()
      if (isRenewing) return
      isRenewing = true
      const sentAtMs = elapsedOf(clock)
      try {
        // No longer than until the next one: another member may answer in time.
        const seconds = await client.renewLease(lease, { limitMs: leaseMs / 2, signal: lost.signal })
        if (seconds === 0) abandon()
        else renewedAtMs = sentAtMs
      } catch {
        if (!isValid()) abandon()
      } finally {
        isRenewing = false
      }
    }

    return {
      revision,
      lost: lost.signal,
      get isValid() {
        return isValid()
      },
      abandon,
      async resign() {
        abandon()
        await client.revokeLease(lease, { limitMs: leaseMs / 2 }).catch(() => {})
      }
    }
  }

  return {
    /** Reads the hub from the leader's key. Refuses `cluster_sealed`, and throws `DamagedLog`. */
    readLeader({ value, createRevision }: Pick<KeyValue, 'value' | 'createRevision'>): Leader {
      const { name, url } = (parsed(sealing.open(value, place)) ?? {}) as Partial<HubAddress>
      if (!isHubAddress({ name, url })) throw new DamagedLog(keys.leader, 'it does not name a hub')
      return { name: name as string, url: url as string, revision: createRevision }
    },

    /** Tries to lead. Returns null if another hub leads. Throws `EtcdError`, `Unreachable`. */
    async campaign(signal: AbortSignal): Promise<Term | null> {
      const grantedAtMs = elapsedOf(clock)
      const limits = { limitMs: leaseMs / 2, signal }
      const lease = await client.grantLease(leaseSeconds, limits)
      const value = sealing.seal(Buffer.from(JSON.stringify({ name: hub.name, url: hub.url })), place)
      const sealedWith = sealing.keys[0]
      const give = (): Promise<void> => client.revokeLease(lease, { limitMs: leaseMs / 2 }).catch(() => {})
      try {
        const { succeeded, revision, ranges } = await client.transact(
          {
            when: [{ key: keys.leader, createRevision: 0 }],
            then: [{ put: keys.leader, value, lease }, { range: { key: keys.history } }],
            otherwise: [{ range: { key: keys.leader } }, { range: { key: keys.history } }]
          },
          limits
        )
        const [[found] = [], [begun] = []] = succeeded ? [[], ...ranges] : ranges
        // If the cluster has a new key, the history says so, and the other hubs could not read who leads.
        if (begun !== undefined) sealing.adopt(begun.value, { key: keys.history, history: '' })
        if (sealing.keys[0] === sealedWith) {
          if (succeeded) return begin(lease, revision, grantedAtMs)
          // The request may have been carried out twice: then the key is already this one.
          if (found?.value.equals(value) === true) return begin(lease, found.createRevision, grantedAtMs)
        }
      } catch (error) {
        void give()
        // The lease ended meanwhile.
        if (error instanceof EtcdError && error.isNotFound) return null
        throw error
      }
      await give()
      return null
    }
  }
}
