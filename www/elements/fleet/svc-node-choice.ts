import type { Said } from '../events.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import type { FleetCalls } from '../../server/fleet-calls.js'
import { may } from '../../state/rights.js'
import { countWords, t } from '../../words/t.js'
import { createRowChoice } from '../base/row-choice.js'
import { addressOf, filterOf, type NodeFilter, type NodeView, type TreeGroup } from './node-filter.js'
import { tilesOf } from './svc-node-grid.js'
import type { TreeColors } from './tree-colors.js'

/** The contents of the list. */
export interface NodeListing {
  /** All nodes. */
  all: readonly ListedNode[]
  /** The visible nodes in order, and grouped. */
  found: readonly ListedNode[]
  groups: readonly TreeGroup[]
  filter: NodeFilter
  view: NodeView
}

/**
 * The nodes as a grid or as a list, and the actions on chosen ones. Properties: `listing`, `colors`, `calls`. Class:
 * `card`, for a list. Event: `bulkdone`, whose failures are listed here. Keys: those of row-choice.ts, in the list also
 * those of svc-rows.
 */
export class SvcNodeChoice extends SvcElement {
  static override sheet = css`
    svc-node-choice {
      display: block;

      &:not(.card) > svc-choice-head,
      &:not(.card) .failures { border: 1px solid var(--line); border-radius: calc(var(--radius) + 2px); background: var(--raised); }
      &:not(.card) .failures { margin-top: 8px; }
      &.card .failures { border-bottom: 1px solid var(--line); }
    }
  `

  calls!: Pick<FleetCalls, 'drain'>
  listing!: NodeListing
  colors!: TreeColors
  #done: Said<'bulkdone'> | null = null
  readonly #choice = createRowChoice({
    shown: () =>
      this.listing.view === 'grid' ? tilesOf(this.listing.groups).map(({ node }) => node) : this.listing.found,
    all: () => this.listing.found,
    isAllowed: () => may('drain'),
    onChange: () => this.update()
  })

  protected override changed(name: string): void {
    if (name === 'listing') this.#choice.keep(this.listing.all)
  }

  protected override view(): Template {
    const { all, found } = this.listing
    const hasHead = this.#choice.isAllowed || found.length < all.length
    return html`
      ${hasHead ? this.#head() : null}
      <svc-bulk-failures .done="${this.#done}" .words="${nodesWords}"
        @failuresread="${() => this.#finished(null)}"></svc-bulk-failures>
      ${found.length === 0 ? nothingFound() : this.#nodes()}`
  }

  #head(): Template {
    const { all, found, filter } = this.listing
    const { ids } = this.#choice
    const address = addressOf({ ...filterOf(new URLSearchParams()), view: filter.view })
    const actions = (): Template => html`
      <svc-node-bulk .nodes="${all.filter(({ id }) => ids.has(id))}" .calls="${this.calls}"
        @bulkdone="${(event: Event) => this.#finished(event as Said<'bulkdone'>)}"></svc-node-bulk>`
    return html`
      <svc-choice-head .all="${all}" .found="${found}" .choice="${this.#choice}" .ids="${ids}" .words="${nodesWords}"
        .address="${address}" .actions="${ids.size === 0 ? null : actions()}"></svc-choice-head>`
  }

  #nodes(): Template {
    const { found, groups, filter, view } = this.listing
    const choice = this.#choice
    if (view === 'grid')
      return html`
        <svc-node-grid .groups="${groups}" .colors="${this.colors}" .filter="${filter}" .choice="${choice}"
          .ids="${choice.ids}"></svc-node-grid>`
    return html`
      <svc-node-list .nodes="${found}" .colors="${this.colors}" .project="${filter.project}" .choice="${choice}"
        .ids="${choice.ids}"></svc-node-list>`
  }

  #finished(done: Said<'bulkdone'> | null): void {
    this.#done = done
    if (done !== null) this.#choice.set([...done.failed, ...done.left])
    this.update()
  }
}

function nothingFound(): Template {
  return html`
    <div class="state">
      <h2>${t('Nothing found')}</h2>
      <p class="muted">${t('No node matches the filter.')}</p>
    </div>`
}

const nodesWords = (count: number): string => countWords(count, 'node')
