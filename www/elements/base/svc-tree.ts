import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import type { TreeRow } from './tree-rows.js'

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
      .turn { display: grid; place-content: center; width: 18px; height: 24px; }
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
