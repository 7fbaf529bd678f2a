/*
 * A new key for a cluster, so that a hub that was removed opens and writes nothing more. One transaction of etcd seals everything
 * with the new key: it empties the log, whose lines the hubs have, and puts the history, the leader and the entries of the hubs that
 * got the key. Entries of others are removed. It is carried out only if this hub still leads, the line before is the one that it
 * knows, and no hub of these was removed meanwhile.
 *
 * A hub that lacked a line finds the log trimmed, and takes the database of another hub.
 */
import { Refusal } from '../../base/errors.js'
import { type EtcdClient, type KeyValue, type Operation, endOfPrefix } from './etcd/client.js'
import { EtcdError, Unreachable } from './etcd/errors.js'
import { openHistory, sealHistory } from './history.js'
import { createHubList } from './hub-list.js'
import type { ClusterKeys } from './keys.js'
import { LostLeadership, UnknownOutcome } from './redo-log.js'
import { createSealing, type Sealing } from './sealing.js'

/** A hub that has the new key. */
export interface KeyHolder {
  name: string
  url: string
  publicKey: string | null
}

/** The state of the log for which the key is replaced. */
export interface Rekeyed {
  /** The new key: 32 bytes. */
  key: Buffer
  holders: readonly KeyHolder[]
  /** The create revision of the leader's key. */
  revision: number
  /** The last line, or the history of an empty log. */
  end: Pick<KeyValue, 'key' | 'modRevision'>
  /** The number of the last write. */
  after: number
}

interface Outside {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  history: string
}

/** Replaces the key, and uses it from then on. Returns the revision of etcd. Throws `LostLeadership`, `UnknownOutcome`. */
export async function rekeyLog(outside: Outside, { key, holders, revision, end, after }: Rekeyed): Promise<number> {
  const { client, keys, sealing, history } = outside
  const next = createSealing(key)
  const { ranges } = await client.transact({
    when: [],
    then: [{ range: { key: keys.leader } }, { range: { key: keys.hubs, end: endOfPrefix(keys.hubs) } }]
  })
  const [[leader] = [], entries = []] = ranges
  if (leader?.createRevision !== revision) throw new LostLeadership()
  const sealed = ({ key, value }: KeyValue): Buffer =>
    next.seal(sealing.open(value, { key, history }), { key, history })
  const kept = createHubList(outside)
    .read(entries)
    .filter(({ hub }) => holders.some(holder => hub !== null && isSame(holder, hub)))
    .map(({ name }) => entries.find(entry => entry.key === keys.hub(name)) as KeyValue)
  if (kept.length !== holders.length) {
    throw new Refusal(
      'conflict',
      'hubs_changed',
      'The hubs of the cluster have changed meanwhile. Run the command again'
    )
  }
  const then: Operation[] = [
    { put: keys.history, value: sealHistory({ id: history, after }, { keys, sealing: next }) },
    { put: keys.leader, value: sealed(leader), keepsLease: true },
    { delete: keys.log, end: endOfPrefix(keys.log) },
    { delete: keys.part, end: endOfPrefix(keys.part) },
    ...kept.map(entry => ({ put: entry.key, value: sealed(entry) })),
    ...entries.filter(entry => !kept.includes(entry)).map(entry => ({ delete: entry.key }))
  ]
  const when = [
    { key: keys.leader, createRevision: revision },
    { key: end.key, modRevision: end.modRevision },
    ...kept.map(entry => ({ key: entry.key, createRevision: entry.createRevision }))
  ]
  const at = await client.transact({ when, then }).then(
    answer => (answer.succeeded ? answer.revision : null),
    async (error: unknown) => {
      if (!(error instanceof EtcdError || error instanceof Unreachable)) throw error
      const found = await findHistory(outside, next)
      if (found === null) throw new UnknownOutcome(error)
      return found
    }
  )
  // It may have been carried out twice: then the second time found another line before.
  const done = at ?? (await findHistory(outside, next))
  if (done === null) throw new LostLeadership()
  sealing.use(key)
  return done
}

function isSame(one: KeyHolder, other: KeyHolder): boolean {
  return one.name === other.name && one.url === other.url && one.publicKey === other.publicKey
}

/** Returns the revision of the history if it is sealed with the new key; null if not, or if etcd does not answer. */
async function findHistory({ client, keys }: Outside, sealing: Sealing): Promise<number | null> {
  try {
    const { keys: found } = await client.range({ key: keys.history })
    if (found[0] === undefined) return null
    openHistory(found[0].value, { keys, sealing })
    return found[0].modRevision
  } catch {
    return null
  }
}
