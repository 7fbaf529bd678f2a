import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import type { NodeState } from './node-filter.js'
import { phaseRows, rolloutRows, type Mark } from './rollout-words.js'
import { shortTree } from './tree-colors.js'

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
