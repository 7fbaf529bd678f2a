import { takingPart } from '../../shared/api.js'
import type { ListedRollout } from '../../../lib/model/rollout.js'
import { css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import { shortTree } from '../base/words.js'
import { SvcMark } from './marks.js'

/** Rollouts, each a link to its page. Property: `items`, newest first. Attribute: `single`, if all are of one project. */
export class SvcRollouts extends SvcElement {
  static readonly observedAttributes = ['single']

  static override sheet = css`
    svc-rollouts {
      display: block;

      li + li { border-top: 1px solid var(--line); }
      a {
        display: grid;
        grid-template: 'state what result time next' auto / 190px minmax(0, 1.4fr) minmax(0, 1.6fr) 120px 16px;
        align-items: center;
        gap: 2px 16px;
        min-height: calc(var(--row) + 8px);
        padding: 8px 16px;
        color: inherit;
      }
      a:hover { background: var(--hover); text-decoration: none; }
      a:focus-visible { outline-offset: -2px; border-radius: 8px; }
      svc-mark { grid-area: state; }
      .what { grid-area: what; display: flex; align-items: baseline; gap: 10px; min-width: 0; }
      .what b { font-weight: 500; }
      .what code { flex: none; color: var(--muted); }
      .result { grid-area: result; color: var(--muted); font-size: var(--size-13); }
      svc-time { grid-area: time; color: var(--muted); font-size: var(--size-13); }
      a > .icon { grid-area: next; color: var(--muted); }
      @media (max-width: 719px) {
        a { grid-template: 'what what next' auto 'result result next' auto 'state time next' auto / minmax(0, 1fr) auto 16px; padding-block: 10px; }
      }
    }
  `

  items: readonly ListedRollout[] = []

  protected override view(): Template {
    return html`<ul>${this.items.map(item => keyed(item.id, html`<li>${this.#link(item)}</li>`))}</ul>`
  }

  #link(item: ListedRollout): Template {
    const name = this.hasAttribute('single')
      ? t('Rollout {number}', { number: numberWords(item.number) })
      : `${item.projectName} · ${numberWords(item.number)}`
    const result = resultWords(item)
    return html`
      <a href="rollouts/${item.id}">
        <svc-mark kind="rollout" state="${item.state}"></svc-mark>
        <span class="what" translate="no"><b class="cut" title="${name}">${name}</b><code title="${item.treeSha256}">${shortTree(item.treeSha256)}</code></span>
        <span class="result cut number" title="${result}">${result}</span>
        <svc-time at="${item.createdAt}"></svc-time>
        ${icon('next')}
      </a>`
  }
}

/** Returns how far a rollout has come, and what went wrong. */
function resultWords({ counts, nodeCount, wave, waves }: ListedRollout): string {
  const { good = 0, failed = 0, stuck = 0, unreachable = 0 } = counts
  return [
    t('{count} of {all} good', { count: numberWords(good), all: numberWords(takingPart({ counts, nodeCount })) }),
    failed + stuck === 0 ? null : t('{count} failed', { count: numberWords(failed + stuck) }),
    unreachable === 0 ? null : t('{count} unreachable', { count: numberWords(unreachable) }),
    wave === 0 ? null : t('wave {wave} of {waves}', { wave: numberWords(wave), waves: numberWords(waves) })
  ]
    .filter(part => part !== null)
    .join(' · ')
}

/** The elements that a page registers for a list of rollouts. */
export const elements = { 'svc-rollouts': SvcRollouts, 'svc-mark': SvcMark }
