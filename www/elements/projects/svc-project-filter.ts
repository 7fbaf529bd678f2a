import { type ProjectSort, noCategory, type ProjectFilter } from './project-filter.js'
import { said, type Said, css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { Labels } from '../../server/requests.js'
import { t } from '../../words/t.js'
import type { Grouping } from '../../state/session.js'

interface Option {
  value: string
  words: string
}
const statuses: readonly Option[] = [
  { value: 'success', words: 'Success' },
  { value: 'failed', words: 'Failed' },
  { value: 'running', words: 'Running' },
  { value: 'idle', words: 'Never deployed' }
]
const sorts: ReadonlyArray<Option & { value: ProjectSort }> = [
  { value: 'deployed', words: 'Last deployment' },
  { value: 'name', words: 'Name' },
  { value: 'created', words: 'Newest' }
]

const groups: ReadonlyArray<Option & { value: Grouping }> = [
  { value: 'none', words: 'No groups' },
  { value: 'env', words: 'By environment' },
  { value: 'category', words: 'By category' }
]

/**
 * The search field and the filters of the projects. Properties: `filter`, `labels`, `environments`, `grouping`. Events:
 * `filterchange`, `grouping`.
 */
export class SvcProjectFilter extends SvcElement {
  static override sheet = css`
    svc-project-filter {
      display: flex;
      flex-wrap: wrap;
      gap: 8px;

      search { flex: 1 1 180px; }
      select { width: auto; max-width: 170px; text-overflow: ellipsis; }
      select.set { border-color: var(--accent); background: var(--accent-quiet); }
      @media (max-width: 719px) {
        display: grid;
        grid-template-columns: minmax(0, 1fr) minmax(0, 1fr);
        search { grid-column: 1 / 3; }
        select { width: 100%; max-width: none; }
        > svc-menu { width: 100%; }
      }
    }
  `

  filter!: ProjectFilter
  labels: Labels = { categories: [], tags: [] }
  environments: readonly string[] = []
  grouping: Grouping = 'none'

  protected override view(): Template {
    const { words, tags, env } = this.filter
    const categories = [
      ...this.labels.categories.map(({ id, name }) => ({ value: id, words: name })),
      { value: noCategory, words: t('No category') }
    ]
    const said = (options: readonly Option[]): Option[] =>
      options.map(option => ({ ...option, words: t(option.words) }))
    const environments = this.environments.map(name => ({ value: name, words: name }))
    const tagsWords = tags.length === 0 ? t('Tags') : t('Tags: {count}', { count: tags.length })
    return html`
      <search>
        ${icon('search')}
        <input type="search" aria-label="${t('Find projects')}" placeholder="${t('Find projects')}" .value="${words}"
          @input="${(event: Event) => this.#change({ words: (event.currentTarget as HTMLInputElement).value })}">
      </search>
      ${this.#select('category', categories, { label: t('Category'), all: t('All categories') })}
      <svc-menu label="${tagsWords}" picture="tag" active="${tags.length > 0}" .content="${html`
        <svc-tag-choice list="" label="${t('Tags')}" .tags="${this.labels.tags}" .chosen="${tags}"
          @tagchoice="${(event: Event) => this.#change({ tags: (event as Said<'tagchoice'>).tagIds })}">
        </svc-tag-choice>`}"></svc-menu>
      ${
        environments.length < 2 && env === ''
          ? null
          : this.#select('env', environments, { label: t('Environment'), all: t('All environments') })
      }
      ${this.#select('status', said(statuses), { label: t('Status'), all: t('All statuses') })}
      ${this.#select('sort', said(sorts), { label: t('Order'), all: null })}
      ${this.filter.view === 'list' ? this.#groups() : null}`
  }

  #select(
    name: 'category' | 'env' | 'status' | 'sort',
    options: readonly Option[],
    { label, all }: { label: string; all: string | null }
  ): Template {
    const chosen = this.filter[name]
    const choose = (event: Event): void => this.#change({ [name]: (event.currentTarget as HTMLSelectElement).value })
    return html`
      <select aria-label="${label}" class="${all !== null && chosen !== '' ? 'set' : null}" @change="${choose}">
        ${all === null ? null : html`<option value="" .selected="${chosen === ''}">${all}</option>`}
        ${options.map(({ value, words }) => html`<option value="${value}" .selected="${value === chosen}">${words}</option>`)}
      </select>`
  }

  #groups(): Template {
    const choose = (event: Event): void => {
      this.dispatchEvent(said('grouping', { grouping: (event.currentTarget as HTMLSelectElement).value as Grouping }))
    }
    return html`
      <select aria-label="${t('Groups')}" @change="${choose}">
        ${groups.map(({ value, words }) => html`<option value="${value}" .selected="${value === this.grouping}">${t(words)}</option>`)}
      </select>`
  }

  #change(change: Partial<ProjectFilter>): void {
    this.dispatchEvent(said('filterchange', { filter: { ...this.filter, ...change } }))
  }
}
