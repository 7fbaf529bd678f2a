import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import type { Choices } from '../../state/merge.js'
import { t } from '../../words/t.js'

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
