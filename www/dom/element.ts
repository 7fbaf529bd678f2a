import { render, type Template } from './html.js'

/**
 * The base class of the panel's elements. It renders at most once per microtask, gives each element a signal that is
 * aborted when the element leaves the page, and adopts the element's sheet once. It uses the light DOM.
 *
 * Each public field of a subclass is a property: setting it requests a rendering. State that only the element itself
 * changes is private; after a change the element calls update().
 */
export abstract class SvcElement extends HTMLElement {
  /** The element's sheet, with all selectors nested under its tag. */
  static sheet = ''

  #life: AbortController | undefined
  #isWaiting = false

  /** Returns the contents of the element. Called in a microtask after update(). */
  protected abstract view(): Template

  /** Aborted when the element leaves the page. Listeners, timers and requests must end with it. */
  protected get signal(): AbortSignal {
    return (this.#life ??= new AbortController()).signal
  }

  /** Called each time the element enters the page, before its first rendering. */
  protected connected(): void {}

  /** Called after the value of the public field `name` has changed while the element is on the page. */
  protected changed(_name: string, _before: unknown): void {}

  /** Called after each rendering, for work that needs the finished nodes. */
  protected rendered(): void {}

  /** Requests a rendering. */
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

  /** Adds a listener that is removed when the element leaves the page. */
  protected listen(target: EventTarget, type: string, listener: (event: Event) => void): void {
    target.addEventListener(type, listener, { signal: this.signal })
  }

  /** Calls `work` at an interval until the element leaves the page. */
  protected every(intervalMs: number, work: () => void): void {
    const timer = setInterval(work, intervalMs)
    this.signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  }

  connectedCallback(): void {
    this.#life = undefined
    this.#watchFields()
    adopt((this.constructor as typeof SvcElement).sheet)
    this.connected()
    this.update()
  }

  /** Replaces public fields with accessors that request a rendering. They are not enumerable, so this happens once. */
  #watchFields(): void {
    for (const name of Object.keys(this)) {
      let value: unknown = Reflect.get(this, name)
      const set = (next: unknown): void => {
        const before = value
        value = next
        if (next !== before && this.isConnected) this.changed(name, before)
        this.update()
      }
      Object.defineProperty(this, name, { get: () => value, set, enumerable: false })
    }
  }

  disconnectedCallback(): void {
    // Most small elements never use their signal. If one is requested from now on, it is already aborted.
    if (this.#life === undefined) this.#life = aborted
    else this.#life.abort()
  }

  attributeChangedCallback(_name: string, before: string | null, now: string | null): void {
    if (before !== now) this.update()
  }
}

const aborted = new AbortController()
aborted.abort()

const sheets = new Map<string, CSSStyleSheet>()

/** Returns the text of a sheet. The tag enables syntax highlighting in editors. */
export function css(strings: TemplateStringsArray): string {
  return strings.join('')
}

/** Adds the text to the document as a constructed sheet, once for all elements that use it. */
function adopt(text: string): void {
  if (sheets.has(text)) return
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(text)
  sheets.set(text, sheet)
  document.adoptedStyleSheets.push(sheet)
}
