import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { nodeStates, nodeViews, type NodeFilter, type NodeIndex, type NodeView } from './node-filter.js'

const stateRows = {
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

      search { position: relative; flex: 1 1 180px; min-width: 0; }
      search .icon { position: absolute; left: 10px; top: calc(50% - 8px); color: var(--muted); pointer-events: none; }
      search input[type='search'] { padding-left: 34px; }
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
        nodeStates.map(state => ({ value: state, words: t(stateRows[state].words) })),
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
