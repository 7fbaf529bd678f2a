import { said, css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'

/* A tree of directories as rows. The children of a directory are loaded when it is opened. */

/** One visible directory of the tree. */
export interface TreeRow {
  path: string
  name: string
  /** Depth, from 1. */
  level: number
  isOpen: boolean
  /** Null if not known yet. */
  hasChildren: boolean | null
  /** Position among its siblings, from 1, and the number of siblings. */
  place: number
  siblings: number
}

export type DirectoryTree = ReturnType<typeof createTree>

/** Creates a tree. `root` is the name of the first row; its path is empty. */
export function createTree(root: string) {
  const children = new Map<string, readonly string[]>()
  const open = new Set<string>([''])

  function rowsBelow(path: string, level: number, rows: TreeRow[]): TreeRow[] {
    const names = children.get(path) ?? []
    for (const [index, name] of names.entries()) {
      const own = path === '' ? name : `${path}/${name}`
      rows.push(rowOf(own, { name, level, place: index + 1, siblings: names.length }))
      if (open.has(own)) rowsBelow(own, level + 1, rows)
    }
    return rows
  }

  function rowOf(path: string, rest: Pick<TreeRow, 'name' | 'level' | 'place' | 'siblings'>): TreeRow {
    const known = children.get(path)
    return { path, ...rest, isOpen: open.has(path), hasChildren: known === undefined ? null : known.length > 0 }
  }

  return {
    /** The visible rows from top to bottom. The root is the first row. */
    get rows() {
      const first = rowOf('', { name: root, level: 1, place: 1, siblings: 1 })
      return first.isOpen ? rowsBelow('', 2, [first]) : [first]
    },

    /** Directories that are open and not loaded yet. */
    get wanted() {
      return [...open].filter(path => !children.has(path))
    },

    /** Sets the names of the directories in a directory. */
    fill(path: string, names: readonly string[]): void {
      children.set(path, names)
    },
    setOpen(path: string, isOpen: boolean): void {
      if (isOpen) open.add(path)
      else open.delete(path)
    },

    /** Opens every directory above a path. */
    reveal(path: string): void {
      const segments = path.split('/').filter(Boolean)
      for (let depth = 0; depth < segments.length; depth++) open.add(segments.slice(0, depth).join('/'))
    }
  }
}

/**
 * A tree of directories. Properties: `rows`; `selected`, the current path. Attribute: `label`. Events: `treetoggle`,
 * `treego`. Keys (ARIA tree pattern): Up, Down, Home and End move; Right opens a directory, then moves into it; Left
 * closes it, then moves to its parent; Enter and Space select it.
 */
export class SvcTree extends SvcElement {
  static readonly observedAttributes = ['label']

  static override sheet = css`
    svc-tree {
      display: block;

      [role=treeitem] {
        --level: 0;
        display: flex;
        align-items: center;
        gap: 6px;
        min-height: 30px;
        padding-left: calc(4px + var(--level) * 14px);
        padding-right: 8px;
        border-radius: 4px;
        cursor: pointer;
      }
      [role=treeitem]:hover { background: var(--hover); }
      [role=treeitem][aria-selected=true] { background: var(--accent-quiet); font-weight: 500; }
      .icon { color: var(--muted); }
      .turn { display: grid; place-items: center; width: 18px; height: 24px; }
      .turn .icon { width: 12px; height: 12px; }
      [aria-expanded=true] > .turn .icon { rotate: 90deg; }
      @media (pointer: coarse) { [role=treeitem] { min-height: 44px; } }
    }
  `

  rows: readonly TreeRow[] = []
  #selected = ''
  #current = ''
  #hasToFocus = false

  get selected(): string {
    return this.#selected
  }

  set selected(path: string) {
    this.#selected = path
    this.#current = path
    this.update()
  }

  protected override view(): Template {
    const current = this.rows.find(({ path }) => path === this.#current) ?? this.rows[0]
    return html`
      <ul role="tree" translate="no" aria-label="${this.getAttribute('label')}"
        @keydown="${(event: Event) => this.#pressed(event as KeyboardEvent)}">
        ${this.rows.map(row =>
          keyed(
            row.path,
            html`
          <li role="treeitem" aria-level="${row.level}" aria-posinset="${row.place}" aria-setsize="${row.siblings}"
            aria-expanded="${row.hasChildren === false ? null : row.isOpen ? 'true' : 'false'}"
            aria-selected="${row.path === this.#selected ? 'true' : 'false'}" title="${row.name}"
            tabindex="${row === current ? '0' : '-1'}" @click="${(event: Event) => this.#clicked(event, row)}">
            <span class="turn">${row.hasChildren === false ? null : icon('next')}</span>
            ${icon('folder')}<span class="cut">${row.name}</span>
          </li>`
          )
        )}
      </ul>`
  }

  protected override rendered(): void {
    for (const [index, item] of this.querySelectorAll<HTMLElement>('[role=treeitem]').entries()) {
      item.style.setProperty('--level', String((this.rows[index]?.level ?? 1) - 1))
    }
    if (!this.#hasToFocus) return
    this.#hasToFocus = false
    this.querySelector<HTMLElement>('[tabindex="0"]')?.focus()
  }

  #clicked(event: Event, row: TreeRow): void {
    this.#current = row.path
    const isTurn = (event.target as Element).closest('.turn') !== null
    if (isTurn && row.hasChildren !== false)
      this.dispatchEvent(said('treetoggle', { path: row.path, isOpen: !row.isOpen }))
    else this.dispatchEvent(said('treego', { path: row.path }))
    this.update()
  }

  #pressed(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return
    const index = Math.max(
      0,
      this.rows.findIndex(({ path }) => path === this.#current)
    )
    const row = this.rows[index]
    if (row === undefined) return
    const last = this.rows.length - 1
    const next = { ArrowDown: Math.min(last, index + 1), ArrowUp: Math.max(0, index - 1), Home: 0, End: last }[
      event.key
    ]
    if (next !== undefined) this.#move(next)
    else if (event.key === 'ArrowRight') this.#right(row, index)
    else if (event.key === 'ArrowLeft') this.#left(row, index)
    else if (event.key === 'Enter' || event.key === ' ') this.dispatchEvent(said('treego', { path: row.path }))
    else return
    event.preventDefault()
  }

  #right(row: TreeRow, index: number): void {
    if (row.hasChildren === false) return
    if (!row.isOpen) this.dispatchEvent(said('treetoggle', { path: row.path, isOpen: true }))
    else if (this.rows[index + 1]?.level === row.level + 1) this.#move(index + 1)
  }

  #left(row: TreeRow, index: number): void {
    if (row.isOpen && row.hasChildren === true)
      return void this.dispatchEvent(said('treetoggle', { path: row.path, isOpen: false }))
    for (let above = index - 1; above >= 0; above--) {
      if ((this.rows[above] as TreeRow).level < row.level) return this.#move(above)
    }
  }

  #move(index: number): void {
    this.#current = (this.rows[index] as TreeRow).path
    this.#hasToFocus = true
    this.update()
  }
}

/** The part of a long list that is on the page. */
export interface RowWindow {
  first: number
  /** Index after the last row. */
  end: number
}

/** The position and size of a list. */
export interface RowGeometry {
  count: number
  rowPx: number
  /** Distance from the top of the visible area to the top of the list; negative if the list is scrolled past it. */
  topPx: number
  seenPx: number
  /** Rows kept on the page above and below the visible area. */
  spareRows: number
}

/** Returns the visible rows and the spare rows around them. Pure. */
export function rowWindow({ count, rowPx, topPx, seenPx, spareRows }: RowGeometry): RowWindow {
  if (rowPx <= 0) return { first: 0, end: Math.min(count, 1) }
  const firstSeen = Math.floor(-topPx / rowPx)
  const endSeen = Math.ceil((seenPx - topPx) / rowPx)
  const first = Math.min(Math.max(0, firstSeen - spareRows), Math.max(0, count - 1))
  return { first, end: Math.max(Math.min(count, endSeen + spareRows), Math.min(count, first + 1)) }
}

/** Returns how far the page must scroll to show a row completely between two margins. Pure. */
export function scrollToRow(
  { rowPx, topPx, seenPx }: Pick<RowGeometry, 'rowPx' | 'topPx' | 'seenPx'>,
  index: number,
  { above, below }: { above: number; below: number }
): number {
  const rowTop = topPx + index * rowPx
  if (rowTop < above) return rowTop - above
  return Math.max(0, rowTop + rowPx - (seenPx - below))
}

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

/* Paths of the server as steps, with the separator of its operating system. Pure. */

export interface PathStep {
  name: string
  path: string
}

/**
 * Splits a path into steps, each with its own path: `/srv/www` into `/`, `srv`, `www`; `C:\sites` into `C:\`, `sites`.
 */
export function stepsOf(path: string, sep: string): PathStep[] {
  const root = sep === '\\' ? (/^[A-Za-z]:\\/.exec(path)?.[0] ?? '') : '/'
  const steps: PathStep[] = root === '' ? [] : [{ name: root, path: root }]
  for (const name of path.slice(root.length).split(sep).filter(Boolean)) {
    const above = steps.at(-1)?.path ?? ''
    steps.push({ name, path: above === '' || above.endsWith(sep) ? `${above}${name}` : `${above}${sep}${name}` })
  }
  return steps
}
