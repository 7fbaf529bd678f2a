import { SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { agoWords, exactWords, spanWords } from './words.js'

const refreshMs = 15_000

/** A moment, in words that stay true; the exact time on hover. Attribute `at`: ISO 8601. */
export class SvcTime extends SvcElement {
  static readonly observedAttributes = ['at']

  protected override connected(): void {
    this.every(refreshMs, () => this.update())
  }

  protected override view(): Template {
    const at = this.getAttribute('at') ?? ''
    if (Number.isNaN(Date.parse(at))) return html`<span>–</span>`
    return html`<time datetime="${at}" title="${exactWords(at)}">${agoWords(at, Date.now())}</time>`
  }
}

/** A span of time, counting while it has no end. Attributes `from`, `to`: ISO 8601. */
export class SvcSpan extends SvcElement {
  static readonly observedAttributes = ['from', 'to']

  protected override connected(): void {
    this.every(1000, () => {
      if (!this.hasAttribute('to')) this.update()
    })
  }

  protected override view(): Template {
    const to = this.getAttribute('to')
    const ms = (to === null ? Date.now() : Date.parse(to)) - Date.parse(this.getAttribute('from') ?? '')
    // While it counts, parts of a second would only flicker.
    const shownMs = to === null ? Math.floor(ms / 1000) * 1000 : ms
    return html`<span class="number">${Number.isNaN(ms) ? '–' : spanWords(shownMs)}</span>`
  }
}
