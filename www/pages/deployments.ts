import type { Client } from '../server/client.js'
import { type DeploymentPage, type DeploymentQuery, readDeployments } from '../server/requests.js'
import type { DeploymentRow, DeploymentStatus } from '../../lib/model/deployment.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { css } from '../elements/element.js'
import { html, type Template } from '../dom/html.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcDeployments } from '../elements/deployments/svc-deployments.js'
import { SvcRows } from '../elements/base/svc-rows.js'
import { SvcBackgroundFailure, SvcMarked, SvcSpan, SvcStatus, SvcTime } from '../elements/base/facts.js'
import { FilteredPage } from './filtered-page.js'
import { countWords, numberWords, t } from '../words/t.js'

/** The loaded deployments, newest first, and the total number. */
export type Shown = DeploymentPage

/** Number of deployments per request. */
export const pageSize = 100

/** The filter of the list. */
export type ListQuery = Pick<DeploymentQuery, 'projectId' | 'status' | 'branch' | 'commit'>

/** What a request for the list needs. */
interface ListNeeds {
  client: Client
  query: ListQuery
  signal: AbortSignal
}

/** Loads the newest page and puts it before the known deployments. If there is a gap, older ones are dropped. */
export async function refreshed(
  { client, query, signal }: ListNeeds,
  knownNow: () => Shown | undefined
): Promise<Shown> {
  const newest = await readDeployments(client, { ...query, limit: pageSize }, signal)
  const known = knownNow()
  return known === undefined ? newest : merged(known, newest)
}

/** Returns the newest page followed by the older known deployments. Pure. */
export function merged(known: Shown, newest: Shown): Shown {
  const last = newest.items.at(-1)
  const at = last === undefined ? -1 : known.items.findIndex(({ id }) => id === last.id)
  const items = at === -1 ? newest.items : [...newest.items, ...known.items.slice(at + 1)]
  // A deleted deployment further down stays in the list until the list is loaded again.
  return { items: items.length > newest.total ? newest.items : items, total: newest.total }
}

/** Loads the page after the last known deployment. */
export async function continued({ client, query, signal }: ListNeeds, known: Shown): Promise<Shown> {
  const { items, total } = await readDeployments(
    client,
    { ...query, limit: pageSize, before: known.items.at(-1)?.id },
    signal
  )
  const ids = new Set(known.items.map(({ id }: DeploymentRow) => id))
  return { items: [...known.items, ...items.filter(({ id }) => !ids.has(id))], total }
}

/** Distance to the end at which more is loaded. */
const aheadPx = 3000
const maxProposals = 50

const statuses: ReadonlyArray<{ value: DeploymentStatus; words: string }> = [
  { value: 'running', words: 'Running' },
  { value: 'queued', words: 'Queued' },
  { value: 'success', words: 'Success' },
  { value: 'failed', words: 'Failed' }
]

/** All deployments, newest first. The query `status`, `project`, `branch` and `commit` filter them. */
export class DeploymentsPage extends FilteredPage<Shown> {
  static override sheet = css`
    svc-page-deployments {
      .filters select { width: auto; max-width: 240px; }
      .filters input[type='search'] { width: 150px; }
      .more { display: flex; justify-content: space-between; align-items: center; gap: 16px; }
      @media (max-width: 719px) {
        .filters select, .filters input[type='search'] { flex: 1 1 40%; width: auto; min-width: 0; }
      }
    }
  `

  protected readonly address = 'deployments'
  #projects!: Resource<Project[]>

  protected override connected(): void {
    this.entitle(t('Deployments'), [{ words: t('Deployments') }])
    this.#projects = this.resource(signal => this.context.client.call('GET /api/projects', { signal }))
    this.begin()
    this.followMarks()
    this.follow(['deployments'], () => {
      // Do not refresh while the next page is loading.
      if (this.isLoadingMore) return false
      void this.shown.load()
      return true
    })
    this.listen(window, 'scroll', () => this.#look())
  }

  protected load(signal: AbortSignal): Promise<Shown> {
    return refreshed({ client: this.context.client, query: this.#query, signal }, () => this.shown.value)
  }

  get #query(): ListQuery {
    const { query } = this.place
    const status = statuses.find(({ value }) => value === query.get('status'))?.value
    const text = (name: string): string | undefined => query.get(name) || undefined
    return { status, projectId: text('project'), branch: text('branch'), commit: text('commit') }
  }

  /** Loads the next page near the end of the list. */
  #look(): void {
    const shown = this.shown.value
    const list = this.querySelector('svc-deployments')
    if (shown === undefined || list === null || shown.items.length >= shown.total || this.isLoadingMore) return
    if (list.getBoundingClientRect().bottom < innerHeight + aheadPx) void this.#more(shown)
  }

  protected override view(): Template {
    const projects = (this.#projects.value ?? []).map(({ id, name }) => ({ value: id, words: name }))
    return html`
      <div class="page-head">
        <div><h1>${t('Deployments')}</h1></div>
        <div class="filters">
          ${this.select('project', { label: t('Filter by project'), all: t('All projects'), options: projects })}
          ${this.#text('branch', t('Branch'), this.#branches())}
          ${this.#text('commit', t('Commit'), [])}
          ${this.select('status', {
            label: t('Filter by status'),
            all: t('All statuses'),
            options: statuses.map(({ value, words }) => ({ value, words: t(words) }))
          })}
        </div>
      </div>
      ${staleLine(this.shown)}
      ${loaded(this.shown, 'the deployments', shown => this.#list(shown))}`
  }

  #text(name: string, label: string, proposals: readonly string[]): Template {
    const choose = (event: Event): void => this.#seek(name, event.currentTarget as HTMLInputElement)
    return html`
      <input type="search" name="${name}" aria-label="${label}" placeholder="${label}" list="filter-${name}" spellcheck="false"
        autocomplete="off" autocapitalize="off" maxlength="300" .value="${this.place.query.get(name) ?? ''}" @change="${choose}">
      <datalist id="filter-${name}">${proposals.map(each => html`<option value="${each}"></option>`)}</datalist>`
  }

  /** Returns the branches of the loaded deployments. */
  #branches(): string[] {
    const branches = (this.shown.value?.items ?? []).map(({ provenance }) => provenance?.branch ?? '')
    return [...new Set(branches)].filter(branch => branch !== '').slice(0, maxProposals)
  }

  /** Applies a filter. Invalid beginnings of a commit are ignored, because the server refuses them. */
  #seek(name: string, input: HTMLInputElement): void {
    const value = input.value.trim()
    const isUsable = name !== 'commit' || value === '' || /^[0-9a-f]{4,64}$/i.test(value)
    input.setCustomValidity(isUsable ? '' : t('Enter at least 4 digits of the commit ID (0–9, a–f)'))
    if (input.reportValidity()) this.choose(name, value)
  }

  #list(shown: Shown): Template {
    const { items, total } = shown
    if (items.length === 0) return html`<div class="card">${this.#empty()}</div>`
    const count = countWords(total, 'deployment')
    return html`
      <div class="section">
        <div class="card"><svc-deployments long="" label="${t('Deployments')}" .items="${items}" .waiting="${this.context.marks.waiting}"></svc-deployments></div>
        <div class="more">
          <p class="muted small number">
            ${items.length < total ? t('{shown} of {all}', { shown: numberWords(items.length), all: count }) : count}
          </p>
          ${items.length < total ? this.moreButton(() => this.#more(shown)) : null}
        </div>
      </div>`
  }

  #empty(): Template {
    return this.place.query.size === 0
      ? html`
        <div class="state">
          <h2>${t('No deployments yet')}</h2>
          <p class="muted">
            ${t('Each push, upload and rollback is listed here with its output.')}
          </p>
          <a class="button" href="projects">${t('Go to projects')}</a>
        </div>`
      : html`
        <div class="state">
          <h2>${t('No matches')}</h2>
          <p class="muted">${t('No deployment matches the filter.')}</p>
          <a class="button" href="deployments">${t('Show all')}</a>
        </div>`
  }

  async #more(shown: Shown): Promise<void> {
    const resource = this.shown
    await this.extend(() => continued({ client: this.context.client, query: this.#query, signal: this.signal }, shown))
    // A page may be shorter than the window.
    if (resource.error === undefined) requestAnimationFrame(() => this.#look())
  }
}

export const elements = {
  'svc-page-deployments': DeploymentsPage,
  'svc-deployments': SvcDeployments,
  'svc-rows': SvcRows,
  'svc-marked': SvcMarked,
  'svc-background-failure': SvcBackgroundFailure,
  'svc-status': SvcStatus,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
