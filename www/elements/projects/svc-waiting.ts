import type { Waiting } from '../../../lib/model/marks.js'
import { css, shownFirst, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { decisionPath, waitingRows } from '../../shared/api.js'
import { numberWords, t } from '../../words/t.js'
import { serverNow } from '../../server/client.js'
import { decides } from '../../state/session.js'
import { waitingWords } from '../base/words.js'

/**
 * What waits for somebody, as two cards: what the signed-in user decides, each with a link to its decision, and what others
 * decide. Property: `items`.
 */
export class SvcWaiting extends SvcElement {
  static override sheet = css`
    svc-waiting {
      display: grid;
      gap: 24px;

      .card.mine { border-color: color-mix(in srgb, var(--warning) 55%, var(--line)); }
      li { display: grid; grid-template-columns: 16px minmax(0, 1fr) auto; gap: 4px 12px; align-items: center; padding: 12px 16px; }
      li + li { border-top: 1px solid var(--line); }
      li > .icon { align-self: start; margin-top: 3px; color: var(--warning); }
      .what { display: grid; grid-template-columns: minmax(0, 1fr); gap: 2px; }
      .head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; }
      .head b { font-weight: 600; color: var(--text); overflow-wrap: anywhere; }
      @media (max-width: 719px) {
        li { grid-template-columns: 16px minmax(0, 1fr); }
        .actions { grid-column: 2; margin-top: 6px; }
      }
    }
  `

  items: readonly Waiting[] = []
  /** The cards that show all. */
  readonly #open = new Set<'mine' | 'others'>()

  protected override view(): Template {
    const mine = this.items.filter(decides)
    const others = this.items.filter(item => !decides(item))
    return html`${this.#section('mine', t('Waiting for you'), mine)}${this.#section('others', t('Waiting for others'), others)}`
  }

  #section(whose: 'mine' | 'others', title: string, items: readonly Waiting[]): Template | null {
    if (items.length === 0) return null
    const shown = this.#open.has(whose) ? items : items.slice(0, shownFirst)
    const count = numberWords(items.length - shown.length)
    return html`
      <section class="section">
        <h2>${title}</h2>
        <ul class="card ${whose}">${shown.map(item => keyed(keyOf(item), line(item, whose === 'mine')))}</ul>
        ${
          shown.length === items.length
            ? null
            : html`<div><button type="button" @click="${() => this.#showAll(whose)}">${t('Show {count} more', { count })}</button></div>`
        }
      </section>`
  }

  #showAll(whose: 'mine' | 'others'): void {
    this.#open.add(whose)
    this.update()
    // The button is gone: the focus goes to the first row that it has shown.
    queueMicrotask(() => this.querySelectorAll<HTMLElement>(`.${whose} li`)[shownFirst]?.querySelector('a')?.focus())
  }
}

const keyOf = ({ deployId, rolloutId }: Waiting): string => rolloutId ?? deployId

function line(item: Waiting, isMine: boolean): Template {
  const { projectId, projectName, since, for: reason } = item
  return html`
    <li>
      ${icon(reason === 'halted' ? 'failed' : 'pause')}
      <div class="what">
        <p class="head">
          <a href="projects/${projectId}"><b translate="no">${projectName}</b></a>
          <span>${waitingWords(item, serverNow())}</span>
        </p>
        <p class="muted small">${t('since')} <svc-time at="${since}"></svc-time>${isMine ? null : html` · ${t(waitingRows[reason].who.words)}`}</p>
      </div>
      <div class="actions">
        <a class="${isMine ? 'button primary' : 'button'}" href="${decisionPath(item)}">${isMine ? t('Decide…') : t('Show')}</a>
      </div>
    </li>`
}

/** The elements that a page registers for what waits. */
export const elements = { 'svc-waiting': SvcWaiting }
