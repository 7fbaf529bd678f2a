import type { ListedRollout, RolloutState } from '../../lib/model/rollout.js'
import { css } from '../elements/element.js'
import { html, type Template } from '../dom/html.js'
import { SvcTime } from '../elements/base/facts.js'
import { roomTabs } from './page.js'
import { FilteredPage } from './filtered-page.js'
import { rolloutRows, SvcMark } from '../elements/fleet/marks.js'
import { SvcRollouts } from '../elements/fleet/svc-rollouts.js'
import { fleetRoom } from '../router.js'
import type { RolloutQuery } from '../server/requests.js'
import { loaded, staleLine } from '../state/resource.js'
import { t } from '../words/t.js'

const pageSize = 50
const refreshMs = 5000

interface Shown {
  items: ListedRollout[]
  /** Whether there may be older ones. */
  hasMore: boolean
}

/** All rollouts, newest first. The query `project`, `deployment` and `state` filter them. */
export class RolloutsPage extends FilteredPage<Shown> {
  static override sheet = css`
    svc-page-rollouts {
      .filters { align-items: center; }
      .filters select { width: auto; max-width: 240px; }
    }
  `

  protected readonly address = 'rollouts'

  protected override connected(): void {
    this.entitle(t('Rollouts'), [{ words: t('Fleet'), address: 'nodes' }, { words: t('Rollouts') }])
    this.begin()
    this.repeat(refreshMs, () => {
      // Longer lists stay as they are until the page is opened again.
      if (!this.isLoadingMore && (this.shown.value?.items.length ?? 0) <= pageSize) void this.shown.refresh()
    })
  }

  get #state(): RolloutState | undefined {
    return (Object.keys(rolloutRows) as RolloutState[]).find(state => state === this.place.query.get('state'))
  }

  protected load(signal: AbortSignal): Promise<Shown> {
    return this.#read({}, signal)
  }

  async #read(more: Partial<RolloutQuery>, signal: AbortSignal): Promise<Shown> {
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
          ${this.select('state', {
            label: t('Filter by state'),
            all: t('All states'),
            options: Object.entries(rolloutRows).map(([value, { words }]) => ({ value, words: t(words) }))
          })}
        </div>
      </div>
      ${roomTabs(fleetRoom(), fleetRoom() === 'nodes' ? 'rollouts' : 'nodes')}
      ${staleLine(this.shown)}
      ${loaded(this.shown, 'the rollouts', shown => this.#list(shown))}`
  }

  #list({ items, hasMore }: Shown): Template {
    if (items.length === 0) return html`<div class="card">${this.#empty()}</div>`
    return html`
      <div class="section">
        <div class="card"><svc-rollouts .items="${items}"></svc-rollouts></div>
        ${hasMore ? html`<div class="actions">${this.moreButton(() => this.#more())}</div>` : null}
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

  #more(): Promise<void> {
    const known = this.shown.value?.items ?? []
    return this.extend(async () => {
      const next = await this.#read({ before: known.at(-1)?.id }, this.signal)
      return { items: [...known, ...next.items], hasMore: next.hasMore }
    })
  }
}

export const elements = {
  'svc-page-rollouts': RolloutsPage,
  'svc-mark': SvcMark,
  'svc-rollouts': SvcRollouts,
  'svc-time': SvcTime
}
