import type { IconName } from '../../dom/html.js'
import type { ListedRollout, NodePhase, RolloutPolicy, RolloutState } from '../../../lib/model/rollout.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { spanWords } from '../base/words.js'

/* Words of rollouts. All `words` are English and passed to t(). Pure. */

/** How a state looks. */
export type Tone = 'good' | 'bad' | 'going' | 'waiting' | 'calm'

/** A state as shape, word and colour. */
export interface Mark {
  picture: IconName
  words: string
  tone: Tone
}

/** The phases of a node, in the order of their importance to a reader. */
export const phaseRows: Readonly<Record<NodePhase, Mark>> = {
  stuck: { picture: 'warning', words: 'Stuck', tone: 'bad' },
  failed: { picture: 'failed', words: 'Failed', tone: 'bad' },
  unreachable: { picture: 'idle', words: 'Unreachable', tone: 'waiting' },
  swapping: { picture: 'running', words: 'Deploying', tone: 'going' },
  withdrawing: { picture: 'running', words: 'Stopping', tone: 'going' },
  reverting: { picture: 'running', words: 'Going back', tone: 'going' },
  preparing: { picture: 'running', words: 'Preparing', tone: 'going' },
  prepared: { picture: 'queued', words: 'Prepared', tone: 'calm' },
  pending: { picture: 'idle', words: 'Pending', tone: 'calm' },
  reverted: { picture: 'roll-back', words: 'Reverted', tone: 'calm' },
  skipped: { picture: 'skipped', words: 'Skipped', tone: 'calm' },
  good: { picture: 'success', words: 'Good', tone: 'good' }
}

/** The phases in the order of `phaseRows`. */
export const phaseOrder = Object.keys(phaseRows) as NodePhase[]

/** The phases that need somebody's attention. */
export const troubled: ReadonlySet<NodePhase> = new Set(['stuck', 'failed', 'unreachable'])

/** The states of a rollout. */
export const rolloutRows: Readonly<Record<RolloutState, Mark>> = {
  preparing: { picture: 'running', words: 'Preparing', tone: 'going' },
  swapping: { picture: 'running', words: 'Deploying', tone: 'going' },
  pausing: { picture: 'pause', words: 'Pausing', tone: 'waiting' },
  approval: { picture: 'pause', words: 'Waiting for approval', tone: 'waiting' },
  halted: { picture: 'failed', words: 'Halted', tone: 'bad' },
  reverting: { picture: 'running', words: 'Going back', tone: 'going' },
  reverted: { picture: 'roll-back', words: 'Reverted', tone: 'calm' },
  done: { picture: 'success', words: 'Done', tone: 'good' }
}

/** What a user can do to a rollout. */
export type RolloutAction = 'halt' | 'approve' | 'resume' | 'revert_wave' | 'revert_all'

/** Returns what a user can do to a rollout in its state. */
export function actionsOf({ state, wave, counts }: Pick<ListedRollout, 'state' | 'wave' | 'counts'>): RolloutAction[] {
  const hasRelease = (counts.good ?? 0) + (counts.stuck ?? 0) + (counts.swapping ?? 0) + (counts.withdrawing ?? 0) > 0
  const back: RolloutAction[] = !hasRelease ? [] : wave > 1 ? ['revert_wave', 'revert_all'] : ['revert_all']
  switch (state) {
    case 'approval':
    case 'pausing':
      return ['halt', 'approve', ...back]
    case 'preparing':
    case 'swapping':
      return ['halt', ...back]
    case 'reverting':
      return ['halt']
    case 'halted':
      return ['resume', ...back]
    case 'reverted':
      return ['resume']
    case 'done':
      return back
  }
}

/** Returns the phases of a rollout with their counts, in the order of `phaseOrder`. */
export function countRows(counts: ListedRollout['counts']): Array<Mark & { phase: NodePhase; count: number }> {
  return phaseOrder.flatMap(phase => {
    const count = counts[phase] ?? 0
    return count === 0 ? [] : [{ phase, count, ...phaseRows[phase] }]
  })
}

const failureWords: Readonly<Record<RolloutPolicy['onFailure'], { words: string }>> = {
  halt: { words: 'Halt' },
  revert_wave: { words: 'Revert the wave' },
  revert_all: { words: 'Revert all nodes' }
}

/** Returns a policy as names and values. */
export function policyRows(policy: RolloutPolicy): Array<[name: string, value: string]> {
  const { canary, then, pause, maxFailures, maxUnreachable, onFailure, order } = policy
  return [
    [t('Nodes of the first wave'), numberWords(canary)],
    [t('Size of further waves'), then.endsWith('%') ? then : countWords(Number(then), 'node')],
    [
      t('Between two waves'),
      pause === 'approve' ? t('an approval') : pause === 0 ? t('no pause') : spanWords(pause * 1000)
    ],
    [t('Nodes that may fail'), numberWords(maxFailures)],
    [t('Nodes that may be unreachable'), maxUnreachable],
    [t('After that'), t(failureWords[onFailure].words)],
    [t('Order of the nodes'), order === null ? t('by name') : t('by label {label}', { label: order })]
  ]
}
