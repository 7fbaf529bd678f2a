import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { rowWindow, scrollToRow } from './row-window.js'

const spareRows = 10
/** Height that bars can cover at the top and the bottom of the page, plus some margin. */
const coverPx = { above: 64, below: 88 }

/**
 * A long list that scrolls with the page; only rows near the visible area are on the page. All rows have the height
 * `--row-px`, set in pixels in the sheet of the page.
 *
 * Properties: `items`; `key`, returns the identity of an item; `row`, returns the content of its `li` (controls of rows
 * other than the current one need `tabindex="-1"`, so that Tab enters and leaves the list at one row). Attribute:
 * `label`. Keys: Up, Down, Page Up, Page Down, Home and End move. Event: `rowfocus`.
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
  row!: (item: Item, place: { index: number; isCurrent: boolean }) => Template
  #items: readonly Item[] = []
  #currentKey = ''
  #current = 0
  #rowPx = 0
  #hasToFocus = false
  /** Current position of each row; most rows do not move. */
  readonly #placed = new WeakMap<Element, number>()

  get items(): readonly Item[] {
    return this.#items
  }

  set items(items: readonly Item[]) {
    this.#items = items
    this.#become(this.#currentKey)
    this.update()
  }

  /** The row that has the focus or would get it. */
  get current(): number {
    return this.#current
  }

  #become(key: string): void {
    this.#currentKey = key
    // Found once instead of at each rendering, because there can be thousands of items.
    this.#current =
      key === ''
        ? 0
        : Math.max(
            0,
            this.#items.findIndex(item => this.key(item) === key)
          )
  }

  /** Moves the focus to a row and scrolls it into view. */
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
          return keyed(
            this.key(item),
            html`
            <li aria-setsize="${items.length}" aria-posinset="${index + 1}">
              ${this.row(item, { index, isCurrent: index === current })}
            </li>`
          )
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
    // The sheet can set another row height for another window width.
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
    this.dispatchEvent(said('rowfocus', { index }))
    this.update()
  }

  #pressed(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return
    const page = Math.max(1, Math.floor(innerHeight / (this.#rowPx || 1)) - 2)
    const next = {
      ArrowDown: this.current + 1,
      ArrowUp: this.current - 1,
      PageDown: this.current + page,
      PageUp: this.current - page,
      Home: 0,
      End: this.#items.length - 1
    }[event.key]
    if (next === undefined) return
    event.preventDefault()
    this.focusRow(next)
  }
}
