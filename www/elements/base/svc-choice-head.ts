import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import type { RowChoice } from './row-choice.js'

interface Row {
  readonly id: string
}

/**
 * The head of a list whose rows can be chosen: the number of rows, or that of the chosen ones and the actions on them.
 * It stays in the window. Properties: `all`, the existing rows; `found`, the shown ones; `choice`; `ids`, the chosen
 * ones; `words`, returns a count with its noun; `address`, where all rows are shown; `actions`, shown if rows are chosen.
 */
export class SvcChoiceHead extends SvcElement {
  static override sheet = css`
    svc-choice-head {
      position: sticky;
      top: 0;
      z-index: 3;
      display: flex;
      flex-wrap: wrap;
      align-items: center;
      gap: 8px 16px;
      min-height: 48px;
      padding: 5px 16px;
      border-bottom: 1px solid var(--line);
      border-radius: 7px 7px 0 0;
      background: var(--raised);

      > a { font-size: var(--size-13); }
      > p { color: var(--muted); font-size: var(--size-13); }
      > .actions-on-chosen { flex: 1; }
    }
  `

  all: readonly Row[] = []
  found: readonly Row[] = []
  choice!: RowChoice
  ids: ReadonlySet<string> = new Set()
  words!: (count: number) => string
  address = ''
  actions: Template | null = null
  #hadFocus = false

  protected override view(): Template {
    const { all, found, ids, words } = this
    this.#hadFocus = this.contains(document.activeElement)
    const seen = found.filter(({ id }) => ids.has(id)).length
    const isAll = seen > 0 && seen === found.length
    const isWhole = found.length === all.length
    const count = isWhole
      ? words(all.length)
      : t('{count} of {all}', { count: numberWords(found.length), all: words(all.length) })
    return html`
      ${
        this.choice.isAllowed
          ? html`
          <input type="checkbox" aria-label="${t('Choose all shown')}" .checked="${isAll}" disabled="${found.length === 0}"
            .indeterminate="${seen > 0 && !isAll}" @change="${() => this.choice.set(isAll ? [] : found)}">`
          : null
      }
      <p class="number" role="status">
        ${ids.size === 0 ? count : t('{what} chosen', { what: words(ids.size) })}
      </p>
      ${ids.size > 0 || isWhole ? null : html`<a href="${this.address}">${t('Show all')}</a>`}
      ${
        ids.size === 0
          ? null
          : html`
          <div class="actions-on-chosen">${this.actions}</div>
          <button type="button" class="quiet" @click="${() => this.choice.set([])}">${t('Choose none')}</button>`
      }`
  }

  protected override rendered(): void {
    // The button that had the focus has gone with the choice.
    if (this.#hadFocus && document.activeElement === document.body) this.querySelector('input')?.focus()
    this.#hadFocus = false
  }
}
