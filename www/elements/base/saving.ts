/*
 * Saves forms whose record may have changed since it was loaded. Fields that only one side changed are merged; for fields
 * that both sides changed, the user chooses.
 */
import { html, type Template } from '../../dom/html.js'
import { Refused } from '../../server/client.js'
import { t } from '../../words/t.js'
import { css, SvcElement } from '../element.js'
import { errorLine } from './form.js'

/** Returns the bar that saves a form. It stays visible, and so do its error and that there are unsaved changes. */
export function saveBar(state: {
  isBusy: boolean
  isUnsaved: boolean
  problem: string | null
  onDiscard: () => void
}): Template {
  const { isBusy, isUnsaved, problem, onDiscard } = state
  return html`
    <div class="${isUnsaved ? 'save due' : 'save'}">
      <button class="primary" disabled="${isBusy || !isUnsaved}">${t('Save')}</button>
      ${isUnsaved ? html`<button type="button" disabled="${isBusy}" @click="${onDiscard}">${t('Discard')}</button>` : null}
      ${problem === null && isUnsaved ? html`<span class="muted small" role="status">${t('Unsaved changes.')}</span>` : null}
      ${errorLine(problem)}
    </div>`
}

/** What the cards of a page need. */
interface CardsNeeds {
  /** Renders the page again. */
  update: () => void
  /** Sets or removes what is asked before the page is left. */
  guard: (ask: ((leave: () => void) => void) | null) => void
  /** Aborted when the page is left. */
  signal: AbortSignal
}

/** The cards of a page that have unsaved changes. Leaving the page asks first. */
export class UnsavedCards {
  readonly #needs: CardsNeeds
  readonly #names = new Set<string>()
  #leave: (() => void) | null = null

  constructor(needs: CardsNeeds) {
    this.#needs = needs
    const { signal, guard } = needs
    signal.addEventListener('abort', () => guard(null))
    const keep = (event: Event): void => {
      if (this.#names.size > 0) event.preventDefault()
    }
    window.addEventListener('beforeunload', keep, { signal })
  }

  /** Notes whether a card has unsaved changes. `name` is in the user's language. */
  set(name: string, isUnsaved: boolean): void {
    if (isUnsaved) this.#names.add(name)
    else this.#names.delete(name)
    this.#needs.guard(this.#names.size > 0 ? leave => this.#ask(leave) : null)
  }

  #ask(leave: (() => void) | null): void {
    this.#leave = leave
    this.#needs.update()
  }

  /** Returns the dialog that asks. The user of this class must register `svc-dialog`. */
  view(): Template {
    const leave = this.#leave
    const stay = (): void => this.#ask(null)
    const content = html`
      <div class="form">
        <p>${t('These settings have unsaved changes: {cards}.', { cards: [...this.#names].join(', ') })}</p>
        <div class="actions end">
          <button type="button" autofocus="" @click="${stay}">${t('Stay')}</button>
          <button type="button" class="danger" @click="${() => leave?.()}">${t('Discard changes')}</button>
        </div>
      </div>`
    return html`
      <svc-dialog heading="${t('Leave without saving?')}" .content="${leave === null ? null : content}" @dialogclose="${stay}"></svc-dialog>`
  }
}

/** A field that both sides changed to different values. */
export interface Conflict {
  name: string
  mine: unknown
  theirs: unknown
}

/** The chosen side of each conflicting field. */
export type Choices = ReadonlyMap<string, 'mine' | 'theirs'>

type Values = Readonly<Record<string, unknown>>

/** Returns the fields to send, and the conflicts that must be decided first. */
export function mergeFields({ base, mine, theirs }: { base: Values; mine: Values; theirs: Values }): {
  changes: Values
  conflicts: Conflict[]
} {
  const changes: Record<string, unknown> = {}
  const conflicts: Conflict[] = []
  for (const [name, value] of Object.entries(mine)) {
    if (isSame(value, base[name]) || isSame(value, theirs[name])) continue
    if (isSame(theirs[name], base[name])) changes[name] = value
    else conflicts.push({ name, mine: value, theirs: theirs[name] })
  }
  return { changes, conflicts }
}

/** The record with which a form was loaded, and the tag of its state. */
export interface Loaded<S> {
  values: Values
  tag: string | null
  /** The record. */
  state: S
}

/** What `saveMerged` needs. */
export interface Saving<S, R> {
  base: Loaded<S>
  /** The current values of the form. */
  mine: Values
  send(changes: Values, tag: string | null): Promise<R>
  /** Loads the current record of the server. */
  load(): Promise<Loaded<S>>
  /** Returns the result if the server already has all values. */
  keep(theirs: S): R
  /** Asks the user. Null cancels saving. */
  choose(conflicts: Conflict[], theirs: S): Promise<Choices | null>
}

/** Saves, and asks again after each conflict. Returns null if the user cancels. */
export async function saveMerged<S, R>({ base, mine, send, load, keep, choose }: Saving<S, R>): Promise<R | null> {
  let changes = mine
  let from = base
  for (;;) {
    try {
      return await send(changes, from.tag)
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'changed_since') throw error
    }
    const now = await load()
    const merged = mergeFields({ base: from.values, mine: changes, theirs: now.values })
    const choices = merged.conflicts.length === 0 ? new Map() : await choose(merged.conflicts, now.state)
    if (choices === null) return null
    const kept = merged.conflicts
      .filter(({ name }) => choices.get(name) === 'mine')
      .map(({ name, mine }) => [name, mine] as const)
    changes = { ...merged.changes, ...Object.fromEntries(kept) }
    if (Object.keys(changes).length === 0) return keep(now.state)
    from = now
  }
}

/** Whether two values are the same in a form. Empty, absent and null are equal, and the order of lists is ignored. */
export function isSame(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other)
}

function canonical(value: unknown): string {
  if (value === null || value === undefined) return '""'
  return JSON.stringify(Array.isArray(value) ? value.map(String).sort() : value)
}

/** A field that was changed in two places, with its label. An empty text is shown as "empty". */
export interface ConflictRow {
  name: string
  label: string
  mine: string
  theirs: string
}

/**
 * Asks which value to keep for each field that was changed elsewhere while a form was open. Method: `ask`. Place it
 * outside of the form. The user of this element must register `svc-dialog`.
 */
export class SvcConflict extends SvcElement {
  static override sheet = css`
    svc-conflict {
      display: contents;

      fieldset { display: grid; gap: 8px; min-width: 0; margin: 0; padding: 0; border: 0; }
      legend { padding: 0; margin-bottom: 8px; font-weight: 500; }
      .value { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 4px 10px; align-items: start; padding: 10px 12px; border: 1px solid var(--line); border-radius: var(--radius); cursor: pointer; }
      .value:has(:checked) { border-color: var(--accent); }
      .value:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
      .value span { color: var(--muted); font-size: var(--size-13); }
      .value pre { grid-column: 2; margin: 0; max-height: 160px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: var(--size-13); }
      .value em { grid-column: 2; color: var(--muted); }
    }
  `

  #rows: readonly ConflictRow[] = []
  #choices = new Map<string, 'mine' | 'theirs'>()
  #answer: ((choices: Choices | null) => void) | null = null

  /** Resolves with a choice for every field, or with null if nothing is to be saved. */
  ask(rows: readonly ConflictRow[]): Promise<Choices | null> {
    this.#answer?.(null)
    this.#rows = rows
    this.#choices = new Map()
    this.update()
    return new Promise(resolve => (this.#answer = resolve))
  }

  protected override connected(): void {
    this.signal.addEventListener('abort', () => this.#answer?.(null))
  }

  protected override view(): Template {
    const close = (event: Event): void => {
      // The form can be in a dialog of its own.
      event.stopPropagation()
      this.#end(null)
    }
    return html`
      <svc-dialog heading="${t('Changed elsewhere')}" .content="${this.#rows.length === 0 ? null : this.#question()}"
        @dialogclose="${close}"></svc-dialog>`
  }

  #question(): Template {
    const isDone = this.#rows.every(({ name }) => this.#choices.has(name))
    return html`
      <form class="form" @submit="${(event: Event) => this.#submit(event)}">
        <p>${t('These values were changed elsewhere after you opened the form. Choose which to keep. Your other changes are saved too.')}</p>
        ${this.#rows.map(row => this.#row(row))}
        <div class="actions end">
          <button type="button" @click="${() => this.#end(null)}">${t('Back to form')}</button>
          <button class="primary" disabled="${!isDone}">${t('Save')}</button>
        </div>
      </form>`
  }

  #row({ name, label, mine, theirs }: ConflictRow): Template {
    const option = (kind: 'mine' | 'theirs', words: string, value: string): Template => html`
      <label class="value">
        <input type="radio" name="conflict-${name}" value="${kind}" .checked="${this.#choices.get(name) === kind}" @change="${() => this.#choose(name, kind)}">
        <span>${words}</span>
        ${value === '' ? html`<em>${t('empty')}</em>` : html`<pre translate="no">${value}</pre>`}
      </label>`
    return html`
      <fieldset>
        <legend>${label}</legend>
        ${option('mine', t('Yours'), mine)}
        ${option('theirs', t('On the server'), theirs)}
      </fieldset>`
  }

  #choose(name: string, choice: 'mine' | 'theirs'): void {
    this.#choices.set(name, choice)
    this.update()
  }

  #submit(event: Event): void {
    event.preventDefault()
    event.stopPropagation()
    this.#end(this.#choices)
  }

  #end(choices: Choices | null): void {
    const answer = this.#answer
    this.#rows = []
    this.#answer = null
    this.update()
    answer?.(choices)
  }
}
