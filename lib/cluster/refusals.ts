/*
 * What failures of etcd and of the log mean for a hub: why it cannot follow or lead, for people, for programs, and whether it
 * may end by itself; and how writes and commands are refused.
 */
import { reasonOf, Refusal } from '../base/errors.js'
import { DamagedLog, DivergedLog, LostLeadership, LostLine, OlderLog, UnknownOutcome } from '../core/store/redo.js'
import { EtcdError, Unreachable } from './etcd/connection.js'

/** Time after which etcd usually answers again, and the hubs have a leader. */
export const etcdRetrySeconds = 3

/**
 * Returns the refusal for an operator if etcd did not answer (`no_leader`) or refused what was asked (`etcd_refused`), for
 * example because of a wrong password; else the error.
 */
export function explainEtcd(error: unknown, what: string): unknown {
  if (error instanceof Unreachable) {
    const options = { cause: error, ...(error.isPassing && { retryAfterSeconds: etcdRetrySeconds }) }
    return new Refusal('unavailable', 'no_leader', `${what}: ${error.message}`, options)
  }
  if (!(error instanceof EtcdError)) return error
  const sentence = `${what}: ${error.message}. Check the user and the password of etcd, and what its role may do`
  return new Refusal('unavailable', 'etcd_refused', sentence, { cause: error })
}

/** Why a hub cannot follow or lead. */
export interface Problem {
  sentence: string
  /** A code of a `Refusal`, or `log_older`, `log_diverged`, `log_damaged`, `log_unreadable`. */
  reason: string
  /** Whether it may end by itself, for example because etcd answers again. */
  passes: boolean
}

/** Returns the problem that an error of the log is. */
export function problemOf(error: unknown): Problem {
  if (error instanceof DivergedLog) {
    const sentence = `${error.message}: etcd was restored from a backup, and other writes took the place of those that this hub has. Nothing was changed here. To give up what only this hub has, let it join again with an empty data directory`
    return { sentence, reason: 'log_diverged', passes: false }
  }
  if (error instanceof OlderLog) {
    const sentence = `${error.message}: etcd was restored from a backup, or is another one. Nothing was changed on this hub. Restore a newer snapshot of etcd, or begin the log again with the hub that has most writes (docs/fleet.md)`
    return { sentence, reason: 'log_older', passes: false }
  }
  if (error instanceof Refusal) {
    return { sentence: error.message, reason: error.code, passes: error.retryAfterSeconds !== undefined }
  }
  const reason = error instanceof DamagedLog ? 'log_damaged' : 'log_unreadable'
  const passes = (error instanceof Unreachable || error instanceof EtcdError) && error.isPassing
  return { sentence: `Cannot follow the log: ${reasonOf(error)}`, reason, passes }
}

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
