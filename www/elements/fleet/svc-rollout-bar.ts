import type { ListedRollout } from '../../../lib/model/rollout.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import { countRows } from './rollout-words.js'

/** The phases of nodes as a bar, with the counts as words below it. Property: `counts`. */
export class SvcRolloutBar extends SvcElement {
  static override sheet = css`
    svc-rollout-bar {
      display: grid;
      gap: 8px;

      svg { display: block; width: 100%; height: 10px; border-radius: 5px; background: var(--hover); }
      .good { fill: var(--success); }
      .bad { fill: var(--failure); }
      .going { fill: var(--running); }
      .waiting { fill: var(--warning); }
      .calm { fill: var(--edge); }
      ul { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: var(--size-13); }
      li { display: inline-flex; align-items: center; gap: 6px; }
    }
  `

  counts: ListedRollout['counts'] = {}

  protected override view(): Template {
    const rows = countRows(this.counts)
    const all = rows.reduce((sum, { count }) => sum + count, 0)
    // From the left: what is done, what goes on, what has not begun.
    const order = ['good', 'bad', 'waiting', 'going', 'calm']
    let from = 0
    const parts = [...rows]
      .sort((a, b) => order.indexOf(a.tone) - order.indexOf(b.tone))
      .map(row => {
        const width = (row.count / all) * 1000
        from += width
        return { ...row, from: from - width, width }
      })
    return html`
      <svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
        ${parts.map(({ tone, from, width }) => html`<rect class="${tone}" x="${from}" y="0" width="${width}" height="10"/>`)}
      </svg>
      <ul class="number">
        ${rows.map(
          ({ phase, count }) => html`
          <li><b>${numberWords(count)}</b><svc-mark kind="phase" state="${phase}"></svc-mark></li>`
        )}
      </ul>`
  }
}

/** Returns the counts of a wave as a text: `3 good, 1 failed`. */
export function countsWords(counts: ListedRollout['counts']): string {
  return countRows(counts)
    .map(({ count, words }) => `${numberWords(count)} ${t(words)}`)
    .join(' · ')
}
