import { render } from './html.js'
import type { Template } from './html.js'

/**
 * What every element of the panel stands on: one rendering per microtask however much changed, a signal that lasts as
 * long as the element is on the page, its sheet adopted once. Light DOM.
 */
export abstract class SvcElement extends HTMLElement {
  /** The element's sheet, all selectors nested under its tag. */
  static sheet = ''

  #life: AbortController | undefined
  #isWaiting = false

  /** What the element shows. Called in a microtask after update(). */
  protected abstract view(): Template

  /** Aborted when the element leaves the page; listeners, timers and requests end with it. */
  protected get signal(): AbortSignal {
    return (this.#life ??= new AbortController()).signal
  }

  /** Once each time the element enters the page, before its first rendering. */
  protected connected(): void {}

  /** After each rendering, for what only the finished nodes can tell. */
  protected rendered(): void {}

  /** Asks for a rendering. */
  update(): void {
    if (this.#isWaiting || !this.isConnected) return
    this.#isWaiting = true
    queueMicrotask(() => {
      this.#isWaiting = false
      if (!this.isConnected) return
      render(this.view(), this)
      this.rendered()
    })
  }

  /** Listens until the element leaves the page. */
  protected listen(target: EventTarget, type: string, listener: (event: Event) => void): void {
    target.addEventListener(type, listener, { signal: this.signal })
  }

  /** Calls back at an interval until the element leaves the page. */
  protected every(intervalMs: number, work: () => void): void {
    const timer = setInterval(work, intervalMs)
    this.signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  }

  connectedCallback(): void {
    this.#life = undefined
    adopt((this.constructor as typeof SvcElement).sheet)
    this.connected()
    this.update()
  }

  disconnectedCallback(): void {
    // Most of the small ones never asked for a signal; who asks now is told that it is over.
    if (this.#life === undefined) this.#life = over
    else this.#life.abort()
  }

  attributeChangedCallback(_name: string, before: string | null, now: string | null): void {
    if (before !== now) this.update()
  }
}

const over = new AbortController()
over.abort()

const sheets = new Map<string, CSSStyleSheet>()

/** A sheet's text, tagged so that editors colour it. Values come from the tokens, never from outside. */
export function css(strings: TemplateStringsArray): string {
  return strings.join('')
}

/** Adds the text to the document as a constructed sheet, once however many elements ask. */
export function adopt(text: string): void {
  if (sheets.has(text)) return
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(text)
  sheets.set(text, sheet)
  document.adoptedStyleSheets.push(sheet)
}
