/* Why a hub cannot follow the log or lead: for people, for programs, and whether it may end by itself. */
import { reasonOf, Refusal } from '../../base/errors.js'
import { EtcdError, Unreachable } from './etcd/errors.js'
import { DamagedLog, DivergedLog, OlderLog } from './redo-log.js'

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
