/*
 * How a database becomes part of a cluster: `svc cluster init` begins the log with it, and every other hub takes an image
 * of the database from a hub that belongs already.
 */
import { pause } from '../base/clock.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { Unreachable } from './etcd/connection.js'
import { etcdRetrySeconds, explainEtcd } from './refusals.js'
import { createElection } from './election.js'
import { beginHistory, newHistoryId, readHistory } from './history.js'
import { createHubList, type ListedHub, type LogPlace, type OwnHub } from './hub-list.js'
import { schemaVersion } from '../core/store/schema.js'
import type { LocalCopy } from './local-copy.js'

interface JoinOptions {
  cluster: string
  hub: OwnHub
  begin?: boolean
  isReturning?: boolean | undefined
  fetchImage?: (from: ListedHub, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>
  onWaiting?: (sentence: string) => void
}

type Joining = LogPlace & { copy: LocalCopy; options: JoinOptions; signal: AbortSignal }

/** A hub that has a database of the cluster waits this long for etcd. */
const knownMs = 3000
/** Pause before other hubs are asked for an image again. */
const againMs = 1000

/**
 * Returns the id of the log, after the database belongs to it. Refuses `cluster_exists`, `cluster_missing`,
 * `cluster_sealed`, `image_needed`, `no_leader`.
 */
export async function joinHistory(joining: Joining): Promise<string> {
  const { copy, options, signal } = joining
  const { cluster } = options
  if (options.begin === true) return begin(joining)
  const isKnown = copy.belonging?.cluster === cluster
  try {
    const found = await readHistory(joining, { signal, ...(isKnown && { limitMs: knownMs }) })
    if (found === null) throw missing(cluster, isKnown)
    if (isKnown && copy.belonging?.history === found.id) {
      if (options.isReturning) await register(joining, found.id)
      return found.id
    }
    // The hub that is asked for the database must know the key of this one.
    await register(joining, found.id)
    await takeImageAtLast({ ...joining, history: found.id })
    return found.id
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error
    // A hub that belongs to the cluster can answer reads without etcd.
    if (isKnown) return (copy.belonging as { history: string }).history
    throw explainEtcd(error, `Cannot join the cluster "${cluster}"`)
  }
}

async function begin({ copy, options, signal, ...outside }: Joining): Promise<string> {
  const { cluster } = options
  // A crash after this line is continued by the next `begin`, with the same id.
  const isBegun = copy.belonging?.cluster === cluster
  const id = isBegun ? (copy.belonging as { history: string }).history : newHistoryId()
  const found = await readHistory(outside, { signal }).catch((error: unknown) => {
    // Only hubs have the key of a cluster, so this log is not the one that an earlier attempt of this hub began.
    throw error instanceof Refusal && error.code === 'cluster_sealed' ? exists(cluster) : error
  })
  const isThere = found !== null && isBegun && found.id === id
  if (found !== null && !isThere) throw exists(cluster)
  if (!isThere) {
    await copy.upgrade()
    await copy.belong({ cluster, history: id })
    if (!(await beginHistory(outside, { id, after: copy.applied }, { signal }))) throw exists(cluster)
  }
  await register({ ...outside, copy, options, signal }, id)
  return id
}

/** Enters this hub into the list, with its key. */
async function register({ copy, options, signal, ...outside }: Joining, history: string): Promise<void> {
  const applied = copy.belonging === null ? 0 : copy.applied
  const hub = { ...options.hub, applied, seenAt: new Date().toISOString(), schema: schemaVersion }
  await createHubList({ ...outside, history }).register(hub, { signal })
}

function exists(cluster: string): Refusal {
  return new Refusal(
    'conflict',
    'cluster_exists',
    `Cannot begin the cluster "${cluster}": etcd already has its log. Join it, or choose another name. If no hub uses that log, remove it: etcdctl del --prefix /svc/${cluster}/`
  )
}

function missing(cluster: string, isKnown: boolean): Refusal {
  return new Refusal(
    'unavailable',
    'cluster_missing',
    isKnown
      ? `Cannot follow the cluster "${cluster}": etcd does not have its log any more. Restore etcd, or begin a new cluster with the database of one hub`
      : `Cannot join the cluster "${cluster}": etcd does not have its log. Begin it on the first hub with "svc cluster init"`
  )
}

async function takeImageAtLast(taking: Joining & { history: string }): Promise<void> {
  for (;;) {
    try {
      return await takeImage(taking)
    } catch (error) {
      taking.signal.throwIfAborted()
      const mayPass = error instanceof Unreachable || (error instanceof Refusal && error.code === 'image_needed')
      if (!mayPass || taking.options.fetchImage === undefined) throw error
      taking.options.onWaiting?.((error as Error).message)
      await pause(againMs, taking.signal)
    }
  }
}

/** Replaces the database by that of another hub: the leader, or the one that is furthest. Refuses `image_needed`. */
export async function takeImage({ copy, options, signal, ...outside }: Joining & { history: string }): Promise<void> {
  const { cluster, hub, fetchImage } = options
  const candidates = await otherHubs(outside, hub)
  let last: unknown = null
  for (const other of fetchImage === undefined ? [] : candidates) {
    try {
      const image = await (fetchImage as NonNullable<typeof fetchImage>)(other, signal)
      return await copy.replace(image, { cluster, history: outside.history })
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof Refusal && error.code === 'database_newer') throw error
      last = error
    }
  }
  const reason = last === null ? 'no other hub is known' : reasonOf(last)
  throw new Refusal(
    'unavailable',
    'image_needed',
    `This hub needs the database of another hub of the cluster "${cluster}" and cannot get it: ${reason}`,
    { cause: last, ...(last !== null && { retryAfterSeconds: etcdRetrySeconds }) }
  )
}

async function otherHubs(outside: LogPlace & { history: string }, own: OwnHub): Promise<ListedHub[]> {
  const clock = { now: Date.now }
  const { readLeader } = createElection({ ...outside, hub: own, leaseSeconds: 1, clock })
  const { keys: found } = await outside.client.range({ key: outside.keys.leader })
  const leader = found[0] === undefined ? null : readLeader(found[0]).name
  const listed = (await createHubList(outside).list()).filter(({ name }) => name !== own.name)
  const rank = ({ name, applied }: ListedHub): number => (name === leader ? Infinity : applied)
  return listed.sort((a, b) => rank(b) - rank(a) || 0)
}
