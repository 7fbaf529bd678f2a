import { html, icon, type IconName, type Template } from '../../dom/html.js'
import type { ListedRollout, NodePhase, RolloutPolicy, RolloutState } from '../../../lib/model/rollout.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { shortTree, spanWords } from '../base/words.js'
import { css, SvcElement } from '../element.js'
import type { NodeState } from './node-filter.js'

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
      return hasRelease ? ['resume', 'revert_all'] : ['resume']
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

/* Colours of trees: each tree has one, and keeps it while it is shown. The short id of the tree is always beside it. */

const palette = ['blue', 'green', 'purple', 'yellow', 'pink', 'cyan'] as const
/** The colour of a tree. Gray: no tree, or more trees than colours. */
export type TreeColor = (typeof palette)[number] | 'gray'

/** The colours of the trees that are shown. */
export type TreeColors = ReturnType<typeof createTreeColors>

export function createTreeColors() {
  let colors = new Map<string, TreeColor>()
  return {
    /** Gives the trees their colours. Those that were shown before keep theirs; the most frequent trees come first. */
    assign(trees: readonly string[]): void {
      const kept = new Map(trees.flatMap(tree => (colors.has(tree) ? [[tree, colors.get(tree) as TreeColor]] : [])))
      const used = new Set(kept.values())
      const free = palette.filter(color => !used.has(color))
      for (const tree of trees) {
        const color = kept.get(tree)
        if (color === undefined || (color === 'gray' && free.length > 0)) kept.set(tree, free.shift() ?? 'gray')
      }
      colors = kept
    },
    of: (tree: string | null): TreeColor => (tree === null ? 'gray' : (colors.get(tree) ?? 'gray'))
  }
}

const nodeRows: Readonly<Record<NodeState, Mark>> = {
  connected: { picture: 'success', words: 'Connected', tone: 'good' },
  lost: { picture: 'failed', words: 'Not connected', tone: 'bad' },
  drained: { picture: 'pause', words: 'Drained', tone: 'calm' }
}
/** What a node says about its agent. */
const agentRows: Readonly<Record<string, Mark>> = {
  outdated: { picture: 'warning', words: 'Update the agent', tone: 'waiting' },
  shared: { picture: 'warning', words: 'Two machines use its identity', tone: 'bad' }
}
const kinds: Readonly<Record<string, Readonly<Record<string, Mark>>>> = {
  node: nodeRows,
  agent: agentRows,
  phase: phaseRows,
  rollout: rolloutRows
}

/** A state as shape, word and colour. Attributes: `kind`: `node`, `agent`, `phase` or `rollout`; `state`. */
export class SvcMark extends SvcElement {
  static readonly observedAttributes = ['kind', 'state']

  static override sheet = css`
    svc-mark {
      display: inline-flex;
      color: var(--muted);
      font-size: var(--size-13);
      font-weight: 500;
      white-space: nowrap;

      > span { display: inline-flex; align-items: center; gap: 6px; }
      .good { color: var(--success); }
      .bad { color: var(--failure); }
      .going { color: var(--running); }
      .waiting { color: var(--warning); }
      @media (prefers-reduced-motion: no-preference) {
        [data-connection='open'] & .turning .icon { animation: svc-mark-turn 1.2s linear infinite; }
      }
    }

    @keyframes svc-mark-turn {
      to { rotate: 360deg; }
    }
  `

  protected override view(): Template {
    const mark = kinds[this.getAttribute('kind') ?? '']?.[this.getAttribute('state') ?? ''] ?? nodeRows.lost
    return html`<span class="${mark.picture === 'running' ? `${mark.tone} turning` : mark.tone}">${icon(mark.picture)}<span>${t(mark.words)}</span></span>`
  }
}

/**
 * A tree as colour and short id. Attributes: `tree`, absent if nothing is in place; `color`, a TreeColor; `drifted`, if
 * the files on the node are no longer those of the tree.
 */
export class SvcTreeMark extends SvcElement {
  static readonly observedAttributes = ['tree', 'color', 'drifted']

  static override sheet = css`
    svc-tree-mark {
      display: inline-flex;
      align-items: center;
      gap: 8px;
      max-width: 100%;
      min-width: 0;
      font-size: var(--size-12);
      line-height: 1.5;
      white-space: nowrap;

      .tree { padding: 1px 8px; border-radius: 4px; background: var(--label-gray-quiet); color: var(--label-gray); font-weight: 500; }
      code { font-weight: 600; }
      &[color='blue'] .tree { background: var(--label-blue-quiet); color: var(--label-blue); }
      &[color='green'] .tree { background: var(--label-green-quiet); color: var(--label-green); }
      &[color='yellow'] .tree { background: var(--label-yellow-quiet); color: var(--label-yellow); }
      &[color='purple'] .tree { background: var(--label-purple-quiet); color: var(--label-purple); }
      &[color='pink'] .tree { background: var(--label-pink-quiet); color: var(--label-pink); }
      &[color='cyan'] .tree { background: var(--label-cyan-quiet); color: var(--label-cyan); }
      .drift { display: inline-flex; align-items: center; gap: 4px; color: var(--warning); font-weight: 500; }
      .drift .icon { width: 12px; height: 12px; }
    }
  `

  protected override view(): Template {
    const tree = this.getAttribute('tree')
    return html`
      <span class="tree">${tree === null ? t('Nothing in place') : html`<code title="${tree}" translate="no">${shortTree(tree)}</code>`}</span>
      ${this.hasAttribute('drifted') ? html`<span class="drift">${icon('edit')}${t('Drifted')}</span>` : null}`
  }
}
