import { createGroupCommit, type GroupCommit } from '../group-commit.js'
import type { Term } from './election.js'
import type { EtcdLog } from './etcd-log.js'
import type { LocalCopy } from './local-copy.js'
import { refusalOf } from './write-refusals.js'

/** Dependencies of `createLeaderQueue`. */
export interface LeaderQueueNeeds {
  copy: LocalCopy
  log: Pick<EtcdLog, 'append'>
  /** The term of this hub. It is given up when memory and the log may differ. */
  won: Pick<Term, 'abandon'>
  /** Observes the duration of an append, in seconds. */
  observe: (seconds: number) => void
  /** Called when a line is durable, and when one was refused. */
  onDurable: () => void
  onFailure: (error: unknown) => void
}

/**
 * Creates the queue of the writes of a leader: a line is first appended to the log in etcd, and then written to the redo
 * log of this hub.
 */
export function createLeaderQueue({ copy, log, won, observe, onDurable, onFailure }: LeaderQueueNeeds): GroupCommit {
  return createGroupCommit({
    durable: copy.applied,
    async append(first, transactions) {
      const fromMs = performance.now()
      await log.append(first, transactions)
      observe((performance.now() - fromMs) / 1000)
      await copy.record(first, transactions)
      if (copy.fault !== null) won.abandon()
    },
    onDurable() {
      copy.memory.succeed()
      copy.consider()
      onDurable()
    },
    onFailure(error) {
      const { refusal, endsTerm } = refusalOf(error)
      onFailure(error)
      const expected = copy.applied
      const failure = copy.memory.fail(refusal)
      if (endsTerm || copy.applied !== expected) won.abandon()
      return failure
    }
  })
}
