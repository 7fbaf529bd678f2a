import { Refusal } from '../../base/errors.js'
import { EtcdError, etcdRetrySeconds, Unreachable } from './etcd/errors.js'
import { LostLeadership, LostLine, UnknownOutcome } from './redo-log.js'

/*
 * The refusals of writes in a cluster.
 */

/** Why nobody leads. */
interface Absence {
  /** As in `HubRole`. */
  problem: string | null
  passes?: boolean
}

/** A write on a hub that follows. */
export function notLeader(leader: { name: string; url: string }): Refusal {
  return new Refusal(
    'unavailable',
    'not_leader',
    `The change was not saved: this hub does not lead, "${leader.name}" at ${leader.url} does`,
    { retryAfterSeconds: 1 }
  )
}

/** A write while nobody can lead, or while this hub cannot follow. Waiting does not help with a problem that does not pass. */
export function noLeader({ problem, passes, cause }: Absence & { cause?: unknown }): Refusal {
  const why = problem ?? 'no hub of the cluster leads at the moment. Try again in a few seconds'
  const options = { cause, ...((problem === null || passes) && { retryAfterSeconds: etcdRetrySeconds }) }
  return new Refusal('unavailable', 'no_leader', `The change was not saved: ${why}`, options)
}

/** Returns the refusal of a write whose append failed, and whether this hub must stop leading. */
export function refusalOf(error: unknown): { refusal: Refusal; endsTerm: boolean } {
  if (error instanceof LostLeadership) return { refusal: noLeader({ problem: null, cause: error }), endsTerm: true }
  if (error instanceof LostLine) return { refusal: noLeader({ problem: error.message, cause: error }), endsTerm: true }
  if (error instanceof UnknownOutcome) {
    return { refusal: unknown(error), endsTerm: true }
  }
  if (error instanceof Unreachable) {
    const problem = error.isPassing ? null : error.message
    return { refusal: noLeader({ problem, cause: error }), endsTerm: true }
  }
  if (error instanceof EtcdError && error.isFull) {
    const sentence =
      'The change was not saved: the database of etcd is full (alarm NOSPACE). Give it more space, and run "etcdctl alarm disarm"'
    return { refusal: new Refusal('unavailable', 'disk_full', sentence, { cause: error }), endsTerm: false }
  }
  if (error instanceof Refusal) return { refusal: error, endsTerm: false }
  const sentence = `The change was not saved: ${(error as Error).message}`
  return { refusal: new Refusal('unavailable', 'write_failed', sentence, { cause: error }), endsTerm: true }
}

function unknown(cause: unknown): Refusal {
  return new Refusal(
    'unavailable',
    'write_unknown',
    'It is not known whether the change was saved: etcd did not answer in time. Look before you try again',
    { retryAfterSeconds: etcdRetrySeconds, cause }
  )
}
