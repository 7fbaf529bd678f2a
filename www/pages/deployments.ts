import type { Deployment, DeploymentStatus } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { css } from '../dom/css.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { loaded, staleLine } from '../elements/states.js'
import { SvcDeployments } from '../elements/svc-deployments.js'
import { SvcStatus } from '../elements/svc-status.js'
import { SvcSpan, SvcTime } from '../elements/svc-time.js'
import { createResource } from '../state/resource.js'
import type { Resource } from '../state/resource.js'
import { Page } from './page.js'
import { countWords } from '../words/t.js'

const refreshMs = 5000
const pageSize = 50
const mostRefreshed = 500

const statuses: ReadonlyArray<{ value: DeploymentStatus; words: string }> = [
  { value: 'running', words: 'Running' },
  { value: 'queued', words: 'Queued' },
  { value: 'success', words: 'Success' },
  { value: 'failed', words: 'Failed' }
]

interface Shown {
  items: Deployment[]
  total: number
}

/** All deployments, newest first. Query `status`, `project`: only those. */
export class DeploymentsPage extends Page {
  static override sheet = css`
    svc-page-deployments {
      .filters { display: flex; flex-wrap: wrap; gap: 8px; }
      .filters select { width: auto; max-width: 240px; }
      .more { display: flex; justify-content: space-between; align-items: center; gap: 16px; }
      @media (max-width: 719px) {
        .filters { flex-basis: 100%; }
        .filters select { flex: 1; min-width: 0; }
      }
    }
  `

  #shown!: Resource<Shown>
  #projects!: Resource<Project[]>
  #filter = ''
  #isLoadingMore = false

  protected override connected(): void {
    this.entitle('Deployments', [{ words: 'Deployments' }])
    this.#projects = this.resource(signal => this.context.calls.projects(signal))
    this.#begin()
    this.repeat(refreshMs, () => {
      // While more is on its way a refresh would only get in between; far down, nobody waits for news.
      if (!this.#isLoadingMore && (this.#shown.value?.items.length ?? 0) <= mostRefreshed) void this.#shown.load()
    })
  }

  protected override moved(): void {
    if (this.#filter !== this.place.query.toString()) this.#begin()
  }

  #begin(): void {
    this.#filter = this.place.query.toString()
    this.#isLoadingMore = false
    const filter = this.#filter
    this.#shown = createResource<Shown>({
      load: signal => this.#load(undefined, Math.max(pageSize, this.#shown.value?.items.length ?? 0), signal),
      onChange: () => {
        if (filter === this.#filter) this.update()
      },
      signal: this.signal
    })
    void this.#shown.load()
  }

  #load(before: string | undefined, limit: number, signal?: AbortSignal): Promise<Shown> {
    const { query } = this.place
    const status = statuses.find(({ value }) => value === query.get('status'))?.value
    const projectId = query.get('project') ?? undefined
    return this.context.calls.deployments({ status, projectId, limit: Math.min(mostRefreshed, limit), before }, signal)
  }

  protected override view(): Template {
    const projects = (this.#projects.value ?? []).map(({ id, name }) => ({ value: id, words: name }))
    return html`
      <div class="page-head">
        <div><h1>Deployments</h1></div>
        <div class="filters">
          ${this.#select('project', 'Every project', projects)}
          ${this.#select('status', 'Every status', statuses)}
        </div>
      </div>
      ${staleLine(this.#shown)}
      ${loaded(this.#shown, 'the deployments', shown => this.#list(shown))}`
  }

  #select(name: string, all: string, options: ReadonlyArray<{ value: string; words: string }>): Template {
    const chosen = this.place.query.get(name) ?? ''
    const choose = (event: Event): void => this.#choose(name, (event.currentTarget as HTMLSelectElement).value)
    return html`
      <select aria-label="${all.replace('Every', 'Which')}" @change="${choose}">
        <option value="" .selected="${chosen === ''}">${all}</option>
        ${options.map(({ value, words }) => html`
          <option value="${value}" .selected="${value === chosen}">${words}</option>`)}
      </select>`
  }

  #choose(name: string, value: string): void {
    const query = new URLSearchParams(this.place.query)
    if (value === '') query.delete(name)
    else query.set(name, value)
    this.context.go(query.size === 0 ? 'deployments' : `deployments?${query}`)
  }

  #list({ items, total }: Shown): Template {
    if (items.length === 0) return html`<div class="card">${this.#empty()}</div>`
    const count = countWords(total, 'deployment')
    return html`
      <div class="section">
        <div class="card"><svc-deployments .items="${items}"></svc-deployments></div>
        <div class="more">
          <p class="muted small number">
            ${items.length < total ? `${items.length.toLocaleString('en')} of ${count}` : count}
          </p>
          ${items.length < total
            ? html`
              <button type="button" disabled="${this.#isLoadingMore}" @click="${() => void this.#more(items)}">
                ${this.#isLoadingMore ? 'Loading…' : 'Load more'}
              </button>`
            : null}
        </div>
      </div>`
  }

  #empty(): Template {
    return this.place.query.size === 0
      ? html`
        <div class="state">
          <h2>Nothing has been deployed yet</h2>
          <p class="muted">
            Each push, each zip dropped on a project and each roll-back becomes a line here, with its output.
          </p>
          <a class="button" href="projects">To the projects</a>
        </div>`
      : html`
        <div class="state">
          <h2>None like that</h2>
          <p class="muted">No deployment fits what is chosen above.</p>
          <a class="button" href="deployments">Show all</a>
        </div>`
  }

  async #more(items: Deployment[]): Promise<void> {
    const resource = this.#shown
    this.#isLoadingMore = true
    this.update()
    await this.attempt(async () => {
      const next = await this.#load(items.at(-1)?.id, pageSize, this.signal)
      if (resource === this.#shown) resource.set({ items: [...items, ...next.items], total: next.total })
    })
    this.#isLoadingMore = false
    this.update()
  }
}

export const elements = {
  'svc-page-deployments': DeploymentsPage,
  'svc-deployments': SvcDeployments,
  'svc-status': SvcStatus,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
