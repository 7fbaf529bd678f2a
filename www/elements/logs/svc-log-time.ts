import { said } from '../events.js'
import { SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import type { LogText } from '../../state/log-text.js'
import { errorWords } from '../../words/errors.js'
import { t } from '../../words/t.js'
import { serverNow } from '../../state/server-clock.js'

/**
 * Asks for a time and finds the first line at or after it. Properties: `text`, the log; `nearMs`, the proposed time.
 * Events: `logtime`, `logtimeclose`. Keys: Escape closes it.
 */
export class SvcLogTime extends SvcElement {
  text!: LogText
  nearMs = Number.NaN
  #words: string | null = null
  #isLooking = false
  #hasFocus = false

  protected override view(): Template {
    const near = Number.isNaN(this.nearMs) ? serverNow() : this.nearMs
    return html`
      <form @submit="${(event: Event) => void this.#find(event)}" @keydown="${(event: Event) => this.#key(event)}">
        <label for="log-time">${t('First line at or after')}</label>
        <input id="log-time" name="time" type="datetime-local" step="1" required="" .defaultValue="${localTime(near)}">
        <button disabled="${this.#isLooking}">${this.#isLooking ? t('Searching…') : t('Go')}</button>
        <button type="button" class="quiet" @click="${() => this.dispatchEvent(said('logtimeclose'))}">
          ${t('Close')}
        </button>
        <span class="muted small" role="status">${this.#words}</span>
      </form>`
  }

  protected override rendered(): void {
    if (this.#hasFocus) return
    this.#hasFocus = true
    this.querySelector('input')?.focus()
  }

  #key(event: Event): void {
    if ((event as KeyboardEvent).key === 'Escape') this.dispatchEvent(said('logtimeclose'))
  }

  async #find(event: Event): Promise<void> {
    event.preventDefault()
    const atMs = new Date(String(new FormData(event.currentTarget as HTMLFormElement).get('time'))).getTime()
    this.#isLooking = true
    this.#words = null
    this.update()
    try {
      const line = await this.text.seek(atMs)
      if (line === null) this.#words = t('No line has this time or a later one.')
      else this.dispatchEvent(said('logtime', { line }))
    } catch (error) {
      this.#words = errorWords(error)
    }
    this.#isLooking = false
    this.update()
  }
}

/** Formats a time as the field needs it: local time without a zone. */
function localTime(ms: number): string {
  const shifted = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return shifted.toISOString().slice(0, 19)
}
