import type { Client } from '../../server/client.js'
import { said, type Said, css, SvcElement } from '../element.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { html, icon, type Template } from '../../dom/html.js'
import { may } from '../../state/session.js'
import { countWords, t } from '../../words/t.js'
import { createRowChoice } from '../base/row-choice.js'
import {
  addressOf,
  chosenStates,
  filterOf,
  type NodeFilter,
  type NodeIndex,
  type NodeView,
  nodeViews,
  type TreeGroup
} from './node-filter.js'
import { releaseOf, tilesOf } from './svc-node-list.js'
import type { TreeColors } from './marks.js'

/** Number of releases that are named above the list. */
const shownReleases = 6

/** The contents of the list. */
export interface NodeListing {
  all: readonly ListedNode[]
  /** The visible nodes in order, and grouped. */
  found: readonly ListedNode[]
  groups: readonly TreeGroup[]
  filter: NodeFilter
  view: NodeView
}

/**
 * The nodes as a grid or as a list, and the actions on chosen ones. Properties: `listing`, `colors`, `client`. Class:
 * `card`, for a list. Event: `bulkdone`, whose failures are listed here. Keys: those of
 * www/elements/base/row-choice.ts, in the list also those of svc-rows.
 */
export class SvcNodeChoice extends SvcElement {
  static override sheet = css`
    svc-node-choice {
      display: block;

      &:not(.card) > svc-choice-head,
      &:not(.card) .failures { border: 1px solid var(--line); border-radius: calc(var(--radius) + 2px); background: var(--raised); }
      &:not(.card) .failures { margin-top: 8px; }
      &.card .failures { border-bottom: 1px solid var(--line); }
      .newest { padding: 0 7px; border-radius: 99px; background: var(--success-quiet); color: var(--success); font-weight: 500; font-size: var(--size-12); }
      .releases { padding: 10px 16px; border-bottom: 1px solid var(--line); font-size: var(--size-13); }
      .releases li { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 10px; min-height: 28px; min-width: 0; overflow-wrap: anywhere; }
      .releases b { font-weight: 500; }
    }
  `

  client!: Client
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
      <svc-node-bulk .nodes="${all.filter(({ id }) => ids.has(id))}" .client="${this.client}"
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
      ${this.#releases(groups)}
      <svc-node-list .nodes="${found}" .colors="${this.colors}" .project="${filter.project}" .choice="${choice}"
        .ids="${choice.ids}"></svc-node-list>`
  }

  /** Says which release each colour is, if there are several. */
  #releases(groups: readonly TreeGroup[]): Template | null {
    const known = groups.filter(({ release }) => release !== null)
    if (known.length < 2) return null
    return html`
      <ul class="releases">
        ${known.slice(0, shownReleases).map(
          group => html`
          <li>
            ${this.listing.filter.project === '' ? html`<b translate="no">${group.project?.name}</b>` : null}
            <svc-tree-mark tree="${group.tree}" color="${this.colors.of(group.tree)}"></svc-tree-mark>
            ${releaseOf(group)}
            <span class="muted number">${nodesWords(group.nodes.length)}</span>
          </li>`
        )}
      </ul>`
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

const stateRows = {
  attention: { words: 'Needs attention' },
  connected: { words: 'Connected' },
  lost: { words: 'Not connected' },
  drained: { words: 'Drained' }
} as const
const viewRows = { grid: { words: 'Grid' }, list: { words: 'List' } } as const

/** Labels that can be chosen. A fleet can have as many as nodes; the search finds the others. */
const maxLabels = 500

/**
 * The search field and the filters of the nodes. Properties: `filter`, `index`; `shownView`, the form that is shown.
 * Event: `nodefilter`.
 */
export class SvcNodeFilter extends SvcElement {
  static override sheet = css`
    svc-node-filter {
      display: flex;
      flex-wrap: wrap;
      gap: 8px;

      search { flex: 1 1 180px; }
      select { width: auto; max-width: 190px; text-overflow: ellipsis; }
      select.set { border-color: var(--accent); background: var(--accent-quiet); }
      .views { display: flex; }
      .views button { font-weight: 400; }
      .views button[aria-pressed='true'] { border-color: var(--accent); background: var(--accent-quiet); }
      .views button:first-child { border-radius: var(--radius) 0 0 var(--radius); }
      .views button:last-child { margin-left: -1px; border-radius: 0 var(--radius) var(--radius) 0; }
      @media (max-width: 719px) {
        display: grid;
        grid-template-columns: minmax(0, 1fr) minmax(0, 1fr);
        search { grid-column: 1 / 3; }
        select { width: 100%; max-width: none; }
        .views button { flex: 1; }
      }
    }
  `

  filter!: NodeFilter
  index!: NodeIndex
  shownView: NodeView = 'grid'

  protected override view(): Template {
    const { projects, labels } = this.index
    return html`
      <search>
        ${icon('search')}
        <input type="search" aria-label="${t('Find nodes')}" placeholder="${t('Find nodes')}" .value="${this.filter.words}"
          @input="${(event: Event) => this.#change({ words: (event.currentTarget as HTMLInputElement).value })}">
      </search>
      ${this.#select(
        'project',
        projects.map(({ id, name }) => ({ value: id, words: name })),
        { label: t('Project'), all: t('All projects') }
      )}
      ${
        labels.length === 0
          ? null
          : this.#select(
              'label',
              labels.slice(0, maxLabels).map(label => ({ value: label, words: label })),
              { label: t('Label'), all: t('All labels') }
            )
      }
      ${this.#select(
        'state',
        chosenStates.map(state => ({ value: state, words: t(stateRows[state].words) })),
        { label: t('State'), all: t('All states') }
      )}
      <div class="views" role="group" aria-label="${t('Form of the list')}">
        ${nodeViews.map(
          view => html`
          <button type="button" aria-pressed="${view === this.shownView ? 'true' : 'false'}"
            @click="${() => this.#change({ view })}">${t(viewRows[view].words)}</button>`
        )}
      </div>`
  }

  #select(
    name: 'project' | 'label' | 'state',
    options: ReadonlyArray<{ value: string; words: string }>,
    { label, all }: { label: string; all: string }
  ): Template {
    const chosen = this.filter[name]
    const choose = (event: Event): void => this.#change({ [name]: (event.currentTarget as HTMLSelectElement).value })
    return html`
      <select aria-label="${label}" class="${chosen === '' ? null : 'set'}" @change="${choose}">
        <option value="" .selected="${chosen === ''}">${all}</option>
        ${options.map(({ value, words }) => html`<option value="${value}" .selected="${value === chosen}">${words}</option>`)}
      </select>`
  }

  #change(change: Partial<NodeFilter>): void {
    // The tree of another project is none of this one.
    const tree = 'project' in change ? { tree: '' } : {}
    this.dispatchEvent(said('nodefilter', { filter: { ...this.filter, ...tree, ...change } }))
  }
}
