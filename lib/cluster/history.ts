/*
 * The history of a cluster: the id of its log, and the number after which the log begins. A database belongs to the log
 * only if it has the same history, so a hub records the id beside svc.db, in svc.db.cluster.
 */

import { randomBytes } from 'node:crypto'
import { DamagedLog, LostLeadership, UnknownOutcome } from '../core/store/redo.js'
import { Refusal } from '../base/errors.js'
import { type AskOptions, EtcdError, Unreachable } from './etcd/connection.js'
import { endOfPrefix, type KeyValue, type Operation } from './etcd/client.js'
import { createSealing, type Sealing } from './sealing.js'
import { createHubList, type LogPlace } from './hub-list.js'

export interface History {
  id: string
  /** The log begins after the transaction with this number. */
  after: number
}

const idBytes = 12

/** Returns the history in etcd; null if there is none. Refuses `cluster_sealed`. */
export async function readHistory({ client, keys, sealing }: LogPlace, options?: AskOptions): Promise<History | null> {
  const { keys: found } = await client.range({ key: keys.history }, options)
  return found[0] === undefined ? null : openHistory(found[0].value, { keys, sealing })
}

export function newHistoryId(): string {
  return randomBytes(idBytes).toString('base64url')
}

/** Begins a log. Returns false if there already is another one. */
export async function beginHistory(
  { client, keys, sealing }: LogPlace,
  history: History,
  options?: AskOptions
): Promise<boolean> {
  const { succeeded, ranges } = await client.transact(
    {
      when: [{ key: keys.history, createRevision: 0 }],
      then: [{ put: keys.history, value: sealHistory(history, { keys, sealing }) }],
      otherwise: [{ range: { key: keys.history } }]
    },
    options
  )
  // The request may have been carried out twice.
  const found = ranges[0]?.[0]
  return succeeded || (found !== undefined && openHistory(found.value, { keys, sealing }).id === history.id)
}

export function sealHistory(history: History, { keys, sealing }: Pick<LogPlace, 'keys' | 'sealing'>): Buffer {
  return sealing.seal(Buffer.from(JSON.stringify(history)), { key: keys.history, history: '' })
}

/** Opens a history from etcd. Refuses `cluster_sealed`, and throws `DamagedLog`. */
export function openHistory(value: Buffer, { keys, sealing }: Pick<LogPlace, 'keys' | 'sealing'>): History {
  const text = sealing.open(value, { key: keys.history, history: '' }).toString()
  try {
    const { id, after } = JSON.parse(text) as History
    if (typeof id === 'string' && id !== '' && Number.isSafeInteger(after) && after >= 0) return { id, after }
  } catch {
    // It is refused below.
  }
  throw new DamagedLog(keys.history, 'it does not name a log')
}

/*
 * A new key for a cluster, so that a hub that was removed opens and writes nothing more. One transaction of etcd seals everything
 * with the new key: it empties the log, whose lines the hubs have, and puts the history, the leader and the entries of the hubs that
 * got the key. Entries of others are removed. It is carried out only if this hub still leads, the line before is the one that it
 * knows, and no hub of these was removed meanwhile.
 *
 * A hub that lacked a line finds the log trimmed, and takes the database of another hub.
 */

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

interface Outside extends LogPlace {
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
  let isUnanswered = false
  const at = await client.transact({ when, then }, { onUnanswered: () => void (isUnanswered = true) }).then(
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
  if (done === null) throw isUnanswered ? new UnknownOutcome(new LostLeadership()) : new LostLeadership()
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
