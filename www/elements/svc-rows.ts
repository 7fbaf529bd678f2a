import { css, SvcElement } from '../dom/element.js'
import { html, keyed } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { rowWindow, scrollToRow } from './row-window.js'

/** Another row has the focus. */
export class RowFocusEvent extends Event {
  readonly index: number

  constructor(index: number) {
    super('rowfocus', { bubbles: true })
    this.index = index
  }
}

declare global {
  interface HTMLElementEventMap {
    rowfocus: RowFocusEvent
  }
}

const spareRows = 10
/** What may lie over the page at its top and its bottom, and a little air. */
const coverPx = { above: 64, below: 88 }

/**
 * A long list in the page's own scrolling, of which only what is near is on the page. Rows are equally high: `--row-px`
 * in the sheet of who uses it, in px.
 *
 * Properties `items`; `key`: an item's identity; `row`: what of it is shown inside its `li` (the controls of the row that
 * is not the current one take `tabindex="-1"`, so that Tab enters and leaves the list at one row). Attribute `label`.
 * Keys: up, down, Page up and down, Home, End move. Event `rowfocus`.
 */
export class SvcRows<Item = unknown> extends SvcElement {
  static readonly observedAttributes = ['label']

  static override sheet = css`
    svc-rows {
      display: block;

      > ul { position: relative; }
      > ul > li { position: absolute; inset: 0 0 auto; height: var(--row-px); contain: strict; }
    }
  `

  key!: (item: Item) => string
  #row!: (item: Item, place: { index: number; isCurrent: boolean }) => Template
  #items: readonly Item[] = []
  #currentKey = ''
  #current = 0
  #rowPx = 0
  #hasToFocus = false
  /** Where each row stands: most stay where they are. */
  readonly #placed = new WeakMap<Element, number>()

  get items(): readonly Item[] {
    return this.#items
  }

  set items(items: readonly Item[]) {
    this.#items = items
    this.#become(this.#currentKey)
    this.update()
  }

  get row(): (item: Item, place: { index: number; isCurrent: boolean }) => Template {
    return this.#row
  }

  set row(row: (item: Item, place: { index: number; isCurrent: boolean }) => Template) {
    this.#row = row
    this.update()
  }

  /** The row that has the focus, or would get it. */
  get current(): number {
    return this.#current
  }

  #become(key: string): void {
    this.#currentKey = key
    // Found once, and not with each rendering: there may be thousands.
    this.#current = key === '' ? 0 : Math.max(0, this.#items.findIndex(item => this.key(item) === key))
  }

  /** Moves the focus to a row, into sight. */
  focusRow(index: number): void {
    const item = this.#items[Math.max(0, Math.min(index, this.#items.length - 1))]
    if (item === undefined) return
    this.#become(this.key(item))
    this.#hasToFocus = true
    scrollBy(0, scrollToRow(this.#geometry(), this.current, coverPx))
    this.update()
  }

  protected override connected(): void {
    this.listen(window, 'scroll', () => this.update())
    this.listen(window, 'resize', () => {
      this.#rowPx = 0
      this.update()
    })
    this.listen(this, 'keydown', event => this.#pressed(event as KeyboardEvent))
    this.listen(this, 'focusin', event => this.#focused(event.target as HTMLElement))
  }

  protected override view(): Template {
    const items = this.#items
    const current = this.current
    const { first, end } = rowWindow({ ...this.#geometry(), count: items.length, spareRows })
    const shown = [current, ...Array.from({ length: end - first }, (_, index) => first + index)]
    const indices = [...new Set(shown)].filter(index => index < items.length).sort((a, b) => a - b)
    return html`
      <ul aria-label="${this.getAttribute('label')}">
        ${indices.map(index => {
          const item = items[index] as Item
          return keyed(this.key(item), html`
            <li aria-setsize="${items.length}" aria-posinset="${index + 1}">
              ${this.#row(item, { index, isCurrent: index === current })}
            </li>`)
        })}
      </ul>`
  }

  protected override rendered(): void {
    const list = this.firstElementChild as HTMLElement
    const rowPx = this.#rowPx
    list.style.height = `${this.#items.length * rowPx}px`
    for (const row of list.children) {
      const top = (Number(row.getAttribute('aria-posinset')) - 1) * rowPx
      if (this.#placed.get(row) === top) continue
      this.#placed.set(row, top)
      ;(row as HTMLElement).style.top = `${top}px`
    }
    if (!this.#hasToFocus) return
    this.#hasToFocus = false
    const current = [...list.children].find(row => row.getAttribute('aria-posinset') === String(this.current + 1))
    current?.querySelector<HTMLElement>('a, button')?.focus({ preventScroll: true })
  }

  #geometry(): { rowPx: number; topPx: number; seenPx: number } {
    // The sheet has another height for another width of the window.
    this.#rowPx ||= Number.parseFloat(getComputedStyle(this).getPropertyValue('--row-px')) || 0
    return { rowPx: this.#rowPx, topPx: this.getBoundingClientRect().top, seenPx: innerHeight }
  }

  #focused(target: HTMLElement): void {
    const row = target.closest('li[aria-posinset]')
    if (row === null) return
    const index = Number(row.getAttribute('aria-posinset')) - 1
    const item = this.#items[index]
    if (item === undefined || this.key(item) === this.#currentKey) return
    this.#become(this.key(item))
    this.dispatchEvent(new RowFocusEvent(index))
    this.update()
  }

  #pressed(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return
    const page = Math.max(1, Math.floor(innerHeight / (this.#rowPx || 1)) - 2)
    const next = {
      ArrowDown: this.current + 1, ArrowUp: this.current - 1, PageDown: this.current + page,
      PageUp: this.current - page, Home: 0, End: this.#items.length - 1
    }[event.key]
    if (next === undefined) return
    event.preventDefault()
    this.focusRow(next)
  }
}
