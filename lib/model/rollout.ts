/*
 * Rollouts: the way of one release to the nodes of a project. All nodes prepare first, which changes nothing. Then
 * they put the files in place in waves. `fleet/machine.ts` has the rules.
 */
import type { Instant } from './scalars.js'

import type { Readers } from './readers.js'

/** What happens after too many nodes have failed: no other node begins, or nodes go back as well. */
export const rolloutFailureModes = ['halt', 'revert_wave', 'revert_all'] as const

/** How a release gets to the nodes of a project. @schema RolloutPolicy */
export interface RolloutPolicy {
  /** Number of nodes of the first wave. @minimum 1 @maximum 10000 */
  canary: number
  /** The size of each further wave: a number of nodes, or a percentage of all. @maxLength 10 */
  then: string
  /** Seconds between two waves. `approve`: each wave after the first waits for an approval. */
  pause: number | 'approve'
  /** Number of nodes that may fail. One more stops the rollout. @minimum 0 @maximum 10000 */
  maxFailures: number
  /** Number or percentage of nodes that may be unreachable. @maxLength 10 */
  maxUnreachable: string
  /** What happens when it stops: nothing, the nodes of the wave go back, or all go back. */
  onFailure: (typeof rolloutFailureModes)[number]
  /** The label by which nodes are sorted into waves. Null: by name. @maxLength 200 */
  order: string | null
}

/** Who reads the keys of the policy of rollouts. */
export const rolloutPolicyReaders: Readers<RolloutPolicy> = {
  fields: {
    canary: 'everybody',
    then: 'everybody',
    pause: 'everybody',
    maxFailures: 'everybody',
    maxUnreachable: 'everybody',
    onFailure: 'everybody',
    order: 'everybody'
  }
}

/** The policy of a project that sets nothing. */
export const defaultRolloutPolicy: RolloutPolicy = {
  canary: 1,
  then: '25%',
  pause: 0,
  maxFailures: 0,
  maxUnreachable: '0',
  onFailure: 'halt',
  order: null
}

/**
 * The states of a rollout.
 *
 * - `preparing`: all nodes fetch and check; nothing is changed
 * - `swapping`: the nodes of a wave put the files in place
 * - `pausing`, `approval`: the next wave waits for a time, or for a user
 * - `halted`: too many nodes failed, or a user stopped it; `resume` and `revert` go on
 * - `reverting`: nodes that have the release go back
 * - `done`, `reverted`: the end. Nodes that come back late still get the release of a rollout that is `done`.
 */
export const rolloutStates = [
  'preparing',
  'swapping',
  'pausing',
  'approval',
  'halted',
  'reverting',
  'reverted',
  'done'
] as const
export type RolloutState = (typeof rolloutStates)[number]

/** Returns whether a rollout is going on by itself, or waits for its next wave. */
export function isGoing(state: RolloutState): boolean {
  return state !== 'halted' && state !== 'reverted' && state !== 'done'
}

/** The rollout that is going on, as deployments that wait for it name it. */
export interface RolloutAhead {
  id: string
  state: RolloutState
  /** When its last wave ended, if it waits for the next one; otherwise when it began. */
  since: Instant
  /** When the next wave begins by itself. Null: it does not. */
  until: Instant | null
}

/** Returns which rollout a deployment waits for, since when, and what to do. */
export function aheadSentence({ id, state, since, until }: RolloutAhead): string {
  const halt = `"svc rollout halt ${id}" ends it`
  if (state === 'approval')
    return `rollout ${id} has waited for an approval since ${since}. "svc rollout approve ${id}" begins the next wave, ${halt}`
  if (state === 'pausing')
    return `rollout ${id} has paused since ${since}, until ${until}. "svc rollout approve ${id}" begins the next wave, ${halt}`
  return `rollout ${id} has been in progress since ${since}. "svc rollout status ${id}" shows it, ${halt}`
}

/**
 * The phases of a node in a rollout.
 *
 * - `pending`: it has no order
 * - `preparing`, `prepared`: it fetches and checks; it has done so
 * - `swapping`: it was told to put the files in place
 * - `withdrawing`: it was told to do so, and then not to; it answers what it has done
 * - `good`: the release is in place, and its checks passed
 * - `failed`: it could not prepare, or its files are not those of the release
 * - `reverting`, `reverted`: it goes back; the earlier files are in place
 * - `stuck`: its files are those of the release although they should not be
 * - `unreachable`: it did not answer in time, so what it did is unknown
 * - `skipped`: it was drained, or placed after the rollout had begun, and has not said yet what it has
 */
export const nodePhases = [
  'pending',
  'preparing',
  'prepared',
  'swapping',
  'withdrawing',
  'good',
  'failed',
  'reverting',
  'reverted',
  'stuck',
  'unreachable',
  'skipped'
] as const
export type NodePhase = (typeof nodePhases)[number]

/** A node in a rollout. */
export interface RolloutNode {
  nodeId: string
  /** The number of its wave, from 1. */
  wave: number
  phase: NodePhase
  /** The number of its last order. 0: none yet. */
  attempt: number
  /** The number of its last order to put the files in place. 0: none. */
  swapAttempt: number
  /** Whether it said that it began that order. */
  hasBegun: boolean
  /** Why it failed. */
  error: string | null
  updatedAt: Instant
}

/** A rollout. */
export interface Rollout {
  id: string
  projectId: string
  /** The number of the rollout among those of its project. Only the last one gives orders. */
  number: number
  /** The deployment whose archive is rolled out. */
  deployId: string
  treeSha256: string
  policy: RolloutPolicy
  state: RolloutState
  /** The wave that is in progress, or was the last one. 0: none has begun. */
  wave: number
  waves: number
  /** The highest number of an order to a node. 0: there was no order. */
  lastAttempt: number
  /** The end of a pause; null: there is none. */
  pausedUntil: Instant | null
  /** The first wave that goes back. */
  revertFrom: number | null
  /** Why it was halted, or goes back. */
  haltedReason: string | null
  createdAt: Instant
  endedAt: Instant | null
}

/** A rollout as lists show it. @schema Rollout */
export interface ListedRollout extends Rollout {
  projectName: string
  /**
   * Number of nodes in each phase: pending, preparing, prepared, swapping, withdrawing, good, failed, reverting,
   * reverted, stuck, unreachable, skipped.
   */
  counts: Partial<Record<NodePhase, number>>
  nodeCount: number
}

/** A node in a rollout as its page shows it. @schema RolloutNode */
export interface ListedRolloutNode extends RolloutNode {
  nodeName: string
  isConnected: boolean
  /** The step of the deployment on the node that failed. */
  failedStep: string | null
  /** The end of the output of the deployment on the node. */
  output: string | null
  /** Milliseconds from the order to the answer. */
  tookMs: number | null
}

/** A rollout with its nodes, sorted by wave, then by name. @schema RolloutDetail */
export interface RolloutDetail extends ListedRollout {
  nodes: ListedRolloutNode[]
}

/**
 * A line of `GET /api/rollouts/:id/events`. The first line is `rollout`. A node that changes is repeated as a whole. The
 * stream ends after the line `end`: when the rollout is halted, reverted or done.
 */
export type RolloutEvent =
  | { type: 'rollout'; rollout: RolloutDetail }
  | { type: 'state'; rollout: ListedRollout }
  | { type: 'node'; node: ListedRolloutNode }
  | { type: 'end'; rollout: ListedRollout }

/** What a node is told to do. `hold`: keep what is prepared, and begin nothing. */
export const orderActions = ['prepare', 'hold', 'swap', 'revert', 'none'] as const
export type OrderAction = (typeof orderActions)[number]

/**
 * What a node answers to an order.
 *
 * - `prepared`, `refused`: to `prepare`. `refused` means that it cannot take the release.
 * - `begun`, `good`, `failed`, `stuck`: to `swap`. `failed` means that the earlier files are in place, `stuck` that those
 *   of the release are.
 * - `held`, or one of these four: to `hold`. `held` means that the earlier files are in place, and nothing is in progress.
 * - `reverted`, `stuck`: to `revert`
 * - `ignored`: to any order that the node does not obey, because it knows a later one
 */
export const nodeAnswers = [
  'prepared',
  'refused',
  'begun',
  'good',
  'failed',
  'held',
  'reverted',
  'stuck',
  'ignored'
] as const
export type NodeAnswer = (typeof nodeAnswers)[number]
