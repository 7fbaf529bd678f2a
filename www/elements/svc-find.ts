import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { numberWords, t } from '../words/t.js'

/** Another text is looked for. */
export class FindEvent extends Event {
  readonly text: string

  constructor(text: string) {
    super('findtext', { bubbles: true })
    this.text = text
  }
}

/** The hit before (-1) or after (1) the current one is wanted. */
export class FindStepEvent extends Event {
  readonly step: -1 | 1

  constructor(step: -1 | 1) {
    super('findstep', { bubbles: true })
    this.step = step
  }
}

/** Enough found. */
export class FindCloseEvent extends Event {
  constructor() {
    super('findclose', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    findtext: FindEvent
    findstep: FindStepEvent
    findclose: FindCloseEvent
  }
}

/**
 * A field to look for a text in what is shown elsewhere. Properties `count`: how many hits there are, `current`: which one
 * is shown, from 0. Events `findtext`, `findstep`, `findclose`. Keys: Enter the one before, Shift-Enter the one after,
 * Escape closes.
 */
export class SvcFind extends SvcElement {
  static override sheet = css`
    svc-find {
      display: flex;
      align-items: center;
      gap: 2px;
      padding: 4px;
      border-radius: var(--radius);
      background: var(--raised);
      box-shadow: var(--float);

      input:not([type='checkbox'], [type='file']) { width: 200px; min-height: 30px; font-size: var(--size-13); }
      output { min-width: 72px; padding: 0 6px; color: var(--muted); font-size: var(--size-12); text-align: center; }
      button { min-width: 30px; min-height: 30px; padding: 0; }
      .back { rotate: 180deg; }
    }
  `

  #count = 0
  #current = -1
  #text = ''

  get count(): number {
    return this.#count
  }

  set count(count: number) {
    this.#count = count
    this.update()
  }

  get current(): number {
    return this.#current
  }

  set current(current: number) {
    this.#current = current
    this.update()
  }

  protected override view(): Template {
    const words = this.#count === 0
      ? t('No match')
      : t('{current} of {count}', { current: numberWords(this.#current + 1), count: numberWords(this.#count) })
    return html`
      <input type="text" aria-label="${t('Find in the terminal')}" placeholder="${t('Find')}" autocomplete="off" spellcheck="false"
        @input="${(event: Event) => this.#changed(event.target as HTMLInputElement)}"
        @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
      <output aria-live="polite">${this.#text === '' ? '' : words}</output>
      <button type="button" class="quiet" title="${t('The one before')}" @click="${() => this.#step(-1)}">
        <span class="back">${icon('down')}</span><span class="unseen">${t('The one before')}</span>
      </button>
      <button type="button" class="quiet" title="${t('The one after')}" @click="${() => this.#step(1)}">
        ${icon('down')}<span class="unseen">${t('The one after')}</span>
      </button>
      <button type="button" class="quiet" title="${t('Close')}" @click="${() => this.dispatchEvent(new FindCloseEvent())}">
        ${icon('close')}<span class="unseen">${t('Close')}</span>
      </button>`
  }

  /** The field has the focus, with what was looked for selected. */
  focusField(): void {
    this.querySelector('input')?.select()
  }

  #changed(field: HTMLInputElement): void {
    this.#text = field.value
    this.update()
    this.dispatchEvent(new FindEvent(this.#text))
  }

  #step(step: -1 | 1): void {
    this.dispatchEvent(new FindStepEvent(step))
  }

  #key(event: KeyboardEvent): void {
    event.stopPropagation()
    if (event.isComposing) return
    if (event.key === 'Enter') this.#step(event.shiftKey ? 1 : -1)
    else if (event.key === 'Escape') this.dispatchEvent(new FindCloseEvent())
  }
}
