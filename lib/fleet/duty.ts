/*
 * The rules of a node for the rollouts of one project, without time, network and disk of its own: which order it obeys,
 * what it does next, and what it answers. The agent keeps the state in its database before it acts on it.
 */
import type { DutyState, NodeOrder } from '../model/fleet-wire.js'
import type { NodeAnswer } from '../model/rollout.js'

/** What a node does next. */
export type Work = 'prepare' | 'swap' | 'revert'

export interface DutyAnswer {
  rolloutId: string
  attempt: number
  answer: NodeAnswer
  error: string | null
}

/** An order that a node does not obey: it is answered again (`known`), or the answer says why not. */
export type Ignored = 'known' | { why: string }

/**
 * Returns the state after an order arrived. Numbers are compared within one history of the hub's database. One that the node
 * has not seen before follows a restore, so its rollouts are newer, whatever their numbers; one that was replaced (`isReplaced`)
 * is that of a hub which does not know what happened since.
 */
export function obey(
  state: DutyState | null,
  order: NodeOrder,
  { isReplaced = false }: { isReplaced?: boolean } = {}
): { state: DutyState } | { ignored: Ignored } {
  const { epoch, rolloutId, number, attempt, action } = order
  if (isReplaced) return { ignored: { why: 'It has followed a hub since whose database was restored after this one' } }
  const isSameHistory = state?.epoch === epoch
  // Nothing is to be done for `none`, and the hub is told what it does not know only if it has not been restored since.
  const isSilent = action === 'none' && state !== null && !isSameHistory
  if (state?.rolloutId === rolloutId) {
    if (isSameHistory && attempt <= state.attempt) return { ignored: 'known' }
    // After a restore, numbers of orders may come again for something else.
    const isRepeated = attempt === state.attempt && action === state.action
    const doneAttempt = isRepeated || attempt > state.attempt ? state.doneAttempt : 0
    return { state: { ...state, epoch, attempt, action, doneAttempt: isSilent ? attempt : doneAttempt } }
  }
  if (state !== null && isSameHistory && number <= state.number)
    return { ignored: { why: `It knows the later rollout ${state.rolloutId} (number ${state.number}, not ${number})` } }
  const nothing = { hasPrepared: false, outcome: 'none', doneAttempt: isSilent ? attempt : 0, error: null } as const
  return { state: { epoch, rolloutId, number, attempt, action, ...nothing } }
}

/** Returns what is to be done now, if nothing is in progress; null: nothing. */
export function workOf(state: DutyState): Work | null {
  const { action, outcome, hasPrepared, attempt, doneAttempt } = state
  const isDone = doneAttempt === attempt
  switch (action) {
    case 'prepare':
      return hasPrepared || isDone || outcome === 'good' ? null : 'prepare'
    case 'swap':
      return isDone || outcome === 'good' ? null : 'swap'
    case 'revert':
      return outcome === 'good' || (outcome === 'stuck' && !isDone) ? 'revert' : null
    default:
      return null
  }
}

/** Returns the state with which a work begins. It must be on the disk before the work begins. */
export function beginning(state: DutyState, work: Work): DutyState {
  if (work === 'prepare') return state
  const outcome = work === 'swap' ? 'begun' : 'reverting'
  return { ...state, outcome, doneAttempt: state.attempt, error: null }
}

/** Returns the state after a work has ended. `begun` is the state with which it began: orders may have come since. */
export function ended(
  state: DutyState,
  {
    begun,
    result,
    error = null
  }: { begun: DutyState; result: Exclude<NodeAnswer, 'begun' | 'held' | 'ignored'>; error?: string | null }
): DutyState {
  if (begun.rolloutId !== state.rolloutId) return state
  if (result === 'prepared') return { ...state, hasPrepared: true, error: null }
  // After a restore of the hub, the order now may have a lower number.
  return { ...state, outcome: result, doneAttempt: Math.min(begun.attempt, state.attempt), error }
}

/** Returns the answer to the newest order; null while the work for it goes on, or if it needs none. */
export function answerOf(state: DutyState): DutyAnswer | null {
  const answer = answerTo(state)
  const { rolloutId, attempt, error } = state
  return answer === null ? null : { rolloutId, attempt, answer, error }
}

function answerTo({ action, outcome, hasPrepared, attempt, doneAttempt }: DutyState): NodeAnswer | null {
  const isDone = doneAttempt === attempt
  // Nobody knows before it has ended whether the release is in place.
  if (outcome === 'reverting') return null
  const tried = outcome === 'none' || outcome === 'reverted' || outcome === 'refused' ? null : outcome
  switch (action) {
    case 'none':
      // The hub has had the answer. A node that does not know the order was set back, and says what it has.
      if (isDone || outcome === 'begun' || outcome === 'stuck') return null
      return outcome === 'good' ? 'good' : 'held'
    case 'prepare':
      if (outcome === 'good') return 'good'
      if (hasPrepared) return 'prepared'
      return isDone && outcome === 'refused' ? 'refused' : null
    case 'hold':
      return tried ?? 'held'
    case 'swap':
      return isDone || outcome === 'good' ? tried : null
    case 'revert':
      if (outcome === 'begun' || outcome === 'good') return null
      return outcome === 'stuck' ? (isDone ? 'stuck' : null) : 'reverted'
  }
}
