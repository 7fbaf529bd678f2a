import { css, SvcElement, said, type Said } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { numberWords, t, twoLines } from '../../words/t.js'
import { errorLine } from './form.js'

/** Creates an empty selection of rows of a list, by id. */
export function createSelection() {
  let ids = new Set<string>()
  let anchor: string | null = null
  return {
    get ids() {
      return ids
    },

    /** Selects or deselects a row; a later range begins at it. */
    toggle(id: string): void {
      ids = new Set(ids)
      if (!ids.delete(id)) ids.add(id)
      anchor = id
    },

    /** Applies the last toggle to all rows between that row and this one. */
    extend(id: string, order: readonly string[]): void {
      const from = anchor === null ? -1 : order.indexOf(anchor)
      const to = order.indexOf(id)
      if (from === -1 || to === -1) return this.toggle(id)
      const isChosen = ids.has(anchor as string)
      ids = new Set(ids)
      for (const each of order.slice(Math.min(from, to), Math.max(from, to) + 1)) {
        if (isChosen) ids.add(each)
        else ids.delete(each)
      }
      anchor = id
    },

    /** Selects exactly these rows. */
    set(chosen: Iterable<string>): void {
      ids = new Set(chosen)
      if (anchor !== null && !ids.has(anchor)) anchor = null
    }
  }
}

/** A row that can be chosen. */
interface Row {
  readonly id: string
}

/** The chosen rows of a list. Nothing is chosen without the right to it. */
export interface RowChoice {
  readonly ids: ReadonlySet<string>
  /** Whether the reader may choose rows. */
  readonly isAllowed: boolean
  /** Chooses a row, or no longer. `isRange`: with the rows between it and the last one. */
  choose(id: string, isRange: boolean): void
  /** Chooses exactly these rows. */
  set(rows: readonly Row[]): void
  /** Drops chosen rows that no longer exist. */
  keep(existing: readonly Row[]): void
  /**
   * Reads a key on the shown row `current`. Space chooses, Shift with Up or Down extends the choice in lists whose rows
   * these keys reach, Ctrl-A chooses all shown rows, Escape none.
   */
  pressed(event: KeyboardEvent, current: number): void
}

export interface RowChoiceNeeds {
  /** Returns the shown rows in order. A range and the keys apply to them. */
  shown: () => readonly Row[]
  /** Returns what Ctrl-A chooses. Default: the shown rows. */
  all?: () => readonly Row[]
  isAllowed: () => boolean
  onChange: () => void
}

export function createRowChoice({ shown, all = shown, isAllowed, onChange }: RowChoiceNeeds): RowChoice {
  const selection = createSelection()
  const choice: RowChoice = {
    get ids() {
      return selection.ids
    },
    get isAllowed() {
      return isAllowed()
    },
    choose(id, isRange) {
      if (!isAllowed()) return
      if (isRange) selection.extend(id, shown().map(keyOf))
      else selection.toggle(id)
      onChange()
    },
    set(rows) {
      if (!isAllowed()) return
      selection.set(rows.map(keyOf))
      onChange()
    },
    keep(existing) {
      const ids = new Set(existing.map(keyOf))
      const kept = [...selection.ids].filter(id => ids.has(id))
      if (kept.length < selection.ids.size) selection.set(kept)
    },
    pressed(event, current) {
      const { key, ctrlKey, metaKey, shiftKey } = event
      const isOnLink = (event.target as HTMLElement).closest('button, input') === null
      const row = shown()[current]
      if (key === 'a' && (ctrlKey || metaKey)) choice.set(all())
      else if (key === 'Escape' && selection.ids.size > 0) choice.set([])
      else if (key === ' ' && isOnLink && row !== undefined) choice.choose(row.id, shiftKey)
      else {
        if (shiftKey && (key === 'ArrowDown' || key === 'ArrowUp')) extend(current, key === 'ArrowDown' ? 1 : -1)
        // The list itself moves the focus.
        return
      }
      event.preventDefault()
    }
  }

  /** Chooses the current row and the row that is reached next. */
  function extend(current: number, step: number): void {
    // The list moves the focus after this, because its own listener was added later.
    if (!isAllowed()) return
    for (const index of [current, current + step]) {
      const row = shown()[index]
      if (row !== undefined && !selection.ids.has(row.id)) selection.toggle(row.id)
    }
    onChange()
  }

  return choice
}

const keyOf = ({ id }: Row): string => id

/**
 * The head of a list whose rows can be chosen: the number of rows, or that of the chosen ones and the actions on them.
 * It stays in the window. Properties: `all`, the existing rows; `found`, the shown ones; `choice`; `ids`, the chosen
 * ones; `words`, returns a count with its noun; `address`, where all rows are shown; `actions`, shown if rows are chosen.
 */
export class SvcChoiceHead extends SvcElement {
  static override sheet = css`
    svc-choice-head {
      position: sticky;
      top: var(--top-kept);
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

/** Maximum number of failures shown; the others are counted. */
const shownFailures = 100

/**
 * The rows that an action could not change, with the reasons. Properties: `done`, the event of the action, or null;
 * `words`, returns a count with its noun. Event: `failuresread`.
 */
export class SvcBulkFailures extends SvcElement {
  static override sheet = css`
    svc-bulk-failures {
      display: contents;

      .failures { position: relative; display: grid; gap: 8px; padding: 12px 48px 12px 16px; }
      .failures ul { display: grid; gap: 4px; max-height: 200px; overflow-y: auto; }
      .failures li { overflow-wrap: anywhere; font-size: var(--size-13); }
      .failures b { margin-right: 8px; font-weight: 500; }
      .failures > button { position: absolute; top: 4px; right: 4px; padding: 4px; min-width: var(--row); }
    }
  `

  done: Said<'bulkdone'> | null = null
  words!: (count: number) => string

  protected override view(): Template {
    const { failed, left } = this.done ?? { failed: [], left: [] }
    if (failed.length + left.length === 0) return html``
    const more = failed.length - shownFailures
    return html`
      <div class="failures" role="alert">
        ${
          failed.length === 0
            ? null
            : html`
            ${errorLine(t('Could not change {what}:', { what: this.words(failed.length) }))}
            <ul>
              ${failed.slice(0, shownFailures).map(({ name, problem }) => html`<li><b translate="no">${name}</b>${twoLines(problem)}</li>`)}
              ${more > 0 ? html`<li>${t('and {count} more', { count: numberWords(more) })}</li>` : null}
            </ul>`
        }
        ${left.length === 0 ? null : html`<p class="small">${t('Stopped. Not changed and still chosen: {what}', { what: this.words(left.length) })}</p>`}
        <button type="button" class="quiet" aria-label="${t('Close list')}" @click="${() => this.dispatchEvent(said('failuresread'))}">
          ${icon('close')}
        </button>
      </div>`
  }
}
