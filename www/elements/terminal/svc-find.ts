import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'

/**
 * A field that searches for a text shown elsewhere. Properties: `count`, the number of hits; `current`, the index of
 * the visible hit. Events: `findtext`, `findstep`, `findclose`. Keys: Enter goes to the previous hit, Shift-Enter to
 * the next one, Escape closes.
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

  count = 0
  current = -1
  #text = ''

  protected override view(): Template {
    const words =
      this.count === 0
        ? t('No match')
        : t('{current} of {count}', { current: numberWords(this.current + 1), count: numberWords(this.count) })
    return html`
      <input type="text" aria-label="${t('Find in the terminal')}" placeholder="${t('Find')}" autocomplete="off" spellcheck="false"
        @input="${(event: Event) => this.#changed(event.target as HTMLInputElement)}"
        @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
      <output aria-live="polite">${this.#text === '' ? '' : words}</output>
      <button type="button" class="quiet" title="${t('Previous match')}" @click="${() => this.#step(-1)}">
        <span class="back">${icon('down')}</span><span class="unseen">${t('Previous match')}</span>
      </button>
      <button type="button" class="quiet" title="${t('Next match')}" @click="${() => this.#step(1)}">
        ${icon('down')}<span class="unseen">${t('Next match')}</span>
      </button>
      <button type="button" class="quiet" title="${t('Close')}" @click="${() => this.dispatchEvent(said('findclose'))}">
        ${icon('close')}<span class="unseen">${t('Close')}</span>
      </button>`
  }

  /** Focuses the field and selects its text. */
  focusField(): void {
    this.querySelector('input')?.select()
  }

  #changed(field: HTMLInputElement): void {
    this.#text = field.value
    this.update()
    this.dispatchEvent(said('findtext', { text: this.#text }))
  }

  #step(step: -1 | 1): void {
    this.dispatchEvent(said('findstep', { step }))
  }

  #key(event: KeyboardEvent): void {
    event.stopPropagation()
    if (event.isComposing) return
    if (event.key === 'Enter') this.#step(event.shiftKey ? 1 : -1)
    else if (event.key === 'Escape') this.dispatchEvent(said('findclose'))
  }
}
