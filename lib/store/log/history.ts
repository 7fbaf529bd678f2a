/*
 * The history of a cluster: the id of its log, and the number after which the log begins. A database belongs to the log
 * only if it has the same history, so a hub records the id beside svc.db, in svc.db.cluster.
 */
import { randomBytes } from 'node:crypto'
import type { AskOptions } from './etcd/connection.js'
import type { EtcdClient } from './etcd/client.js'
import type { ClusterKeys } from './keys.js'
import { DamagedLog } from './redo-log.js'
import type { Sealing } from './sealing.js'

/** The history of a cluster. */
export interface History {
  id: string
  /** The log begins after the transaction with this number. */
  after: number
}

interface HistoryNeeds {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
}

const idBytes = 12

/** Returns the history in etcd; null if there is none. Refuses `cluster_sealed`. */
export async function readHistory(
  { client, keys, sealing }: HistoryNeeds,
  options?: AskOptions
): Promise<History | null> {
  const { keys: found } = await client.range({ key: keys.history }, options)
  return found[0] === undefined ? null : openHistory(found[0].value, { keys, sealing })
}

/** Returns an id for a new log. */
export function newHistoryId(): string {
  return randomBytes(idBytes).toString('base64url')
}

/** Begins a log. Returns false if there already is another one. */
export async function beginHistory(
  { client, keys, sealing }: HistoryNeeds,
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

/** Seals a history for etcd. */
export function sealHistory(history: History, { keys, sealing }: Pick<HistoryNeeds, 'keys' | 'sealing'>): Buffer {
  return sealing.seal(Buffer.from(JSON.stringify(history)), { key: keys.history, history: '' })
}

/** Opens a history from etcd. Refuses `cluster_sealed`, and throws `DamagedLog`. */
export function openHistory(value: Buffer, { keys, sealing }: Pick<HistoryNeeds, 'keys' | 'sealing'>): History {
  const text = sealing.open(value, { key: keys.history, history: '' }).toString()
  try {
    const { id, after } = JSON.parse(text) as History
    if (typeof id === 'string' && id !== '' && Number.isSafeInteger(after) && after >= 0) return { id, after }
  } catch {
    // It is refused below.
  }
  throw new DamagedLog(keys.history, 'it does not name a log')
}
