import type { ListedRollout, RolloutState } from '../../lib/model/rollout.js'
import { css } from '../elements/element.js'
import { html, type Template } from '../dom/html.js'
import { SvcTime } from '../elements/base/facts.js'
import { Page, roomTabs } from './page.js'
import { rolloutRows, SvcMark } from '../elements/fleet/marks.js'
import { SvcRollouts } from '../elements/fleet/svc-rollouts.js'
import { fleetRoom } from '../router.js'
import type { RolloutQuery } from '../server/requests.js'
import { createResource, loaded, type Resource, staleLine } from '../state/resource.js'
import { t } from '../words/t.js'

const pageSize = 50
const refreshMs = 5000

interface Shown {
  items: ListedRollout[]
  /** Whether there may be older ones. */
  hasMore: boolean
}

/** All rollouts, newest first. The query `project`, `deployment` and `state` filter them. */
export class RolloutsPage extends Page {
  static override sheet = css`
    svc-page-rollouts {
      .filters { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 16px; }
      .filters select { width: auto; max-width: 240px; }
    }
  `

  #shown!: Resource<Shown>
  #filter = ''
  #isLoadingMore = false

  protected override connected(): void {
    this.entitle(t('Rollouts'), [{ words: t('Fleet'), address: 'nodes' }, { words: t('Rollouts') }])
    this.#begin()
    this.repeat(refreshMs, () => {
      // Longer lists stay as they are until the page is opened again.
      if (!this.#isLoadingMore && (this.#shown.value?.items.length ?? 0) <= pageSize) void this.#shown.refresh()
    })
  }

  protected override moved(): void {
    if (this.#filter !== this.place.query.toString()) this.#begin()
  }

  #begin(): void {
    const filter = (this.#filter = this.place.query.toString())
    this.#shown = createResource<Shown>({
      load: signal => this.#load({}, signal),
      onChange: () => {
        if (filter === this.#filter) this.update()
      },
      signal: this.signal
    })
    void this.#shown.load()
  }

  get #state(): RolloutState | undefined {
    return (Object.keys(rolloutRows) as RolloutState[]).find(state => state === this.place.query.get('state'))
  }

  async #load(more: Partial<RolloutQuery>, signal: AbortSignal): Promise<Shown> {
    const text = (name: string): string | undefined => this.place.query.get(name) || undefined
    const query = { projectId: text('project'), deployId: text('deployment'), state: this.#state, limit: pageSize }
    const items = (await this.context.client.call('GET /api/rollouts', { query: { ...query, ...more }, signal }))
      .rollouts
    return { items, hasMore: items.length === pageSize }
  }

  protected override view(): Template {
    return html`
      <div class="page-head">
        <div><h1>${t('Rollouts')}</h1></div>
        <div class="filters">
          ${this.place.query.size === 0 ? null : html`<a href="rollouts">${t('Show all')}</a>`}
          <select aria-label="${t('Filter by state')}" @change="${(event: Event) => this.#choose((event.currentTarget as HTMLSelectElement).value)}">
            <option value="" .selected="${this.#state === undefined}">${t('All states')}</option>
            ${Object.entries(rolloutRows).map(
              ([state, { words }]) =>
                html`<option value="${state}" .selected="${state === this.#state}">${t(words)}</option>`
            )}
          </select>
        </div>
      </div>
      ${roomTabs(fleetRoom(), fleetRoom() === 'nodes' ? 'rollouts' : 'nodes')}
      ${staleLine(this.#shown)}
      ${loaded(this.#shown, 'the rollouts', shown => this.#list(shown))}`
  }

  #list({ items, hasMore }: Shown): Template {
    if (items.length === 0) return html`<div class="card">${this.#empty()}</div>`
    return html`
      <div class="section">
        <div class="card"><svc-rollouts .items="${items}"></svc-rollouts></div>
        ${hasMore ? html`<div class="actions"><button type="button" disabled="${this.#isLoadingMore}" @click="${() => void this.#more()}">${this.#isLoadingMore ? t('Loading…') : t('Load more')}</button></div>` : null}
      </div>`
  }

  #empty(): Template {
    if (this.place.query.size > 0) {
      return html`
        <div class="state">
          <h2>${t('Nothing found')}</h2>
          <p class="muted">${t('No rollout matches the filter.')}</p>
          <a class="button" href="rollouts">${t('Show all')}</a>
        </div>`
    }
    return html`
      <div class="state">
        <h2>${t('No rollouts yet')}</h2>
        <p class="muted">${t('A push to a project that is placed on nodes becomes a rollout: all nodes prepare, then they deploy in waves.')}</p>
        <a class="button" href="nodes">${t('Go to nodes')}</a>
      </div>`
  }

  #choose(state: string): void {
    const query = new URLSearchParams(this.place.query)
    if (state === '') query.delete('state')
    else query.set('state', state)
    this.context.go(query.size === 0 ? 'rollouts' : `rollouts?${query}`)
  }

  async #more(): Promise<void> {
    const resource = this.#shown
    const known = resource.value?.items ?? []
    this.#isLoadingMore = true
    this.update()
    await this.attempt(async () => {
      const next = await this.#load({ before: known.at(-1)?.id }, this.signal)
      if (resource === this.#shown) resource.set({ items: [...known, ...next.items], hasMore: next.hasMore })
    })
    this.#isLoadingMore = false
    this.update()
  }
}

/** The elements of this page. */
export const elements = {
  'svc-page-rollouts': RolloutsPage,
  'svc-mark': SvcMark,
  'svc-rollouts': SvcRollouts,
  'svc-time': SvcTime
}
