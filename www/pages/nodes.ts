import type { Client } from '../server/client.js'
import { notice, said, type Said, css, SvcElement } from '../elements/element.js'
import type { Enrollment, ListedNode, NodeRelease } from '../../lib/model/node.js'
import type { Waiting } from '../../lib/model/marks.js'
import { html, icon, keyed, type Template } from '../dom/html.js'
import { countWords, numberWords, t, actorWords, errorWords } from '../words/t.js'
import { exactWords } from '../elements/base/words.js'
import {
  addressOf,
  chosenStates,
  createNodeIndex,
  filterOf,
  groupByTree,
  labelTexts,
  type NodeFilter,
  type NodeIndex,
  type NodeView,
  treesOf
} from '../elements/fleet/node-filter.js'
import { SvcCopy, SvcTime } from '../elements/base/facts.js'
import { Page, roomTabs } from './page.js'
import { SvcBulkFailures, SvcChoiceHead } from '../elements/base/row-choice.js'
import { SvcDialog } from '../elements/base/form.js'
import { SvcRows } from '../elements/base/svc-rows.js'
import { createTreeColors, SvcMark, SvcTreeMark } from '../elements/fleet/marks.js'
import { SvcNodeBulk } from '../elements/fleet/svc-node-bulk.js'
import { type NodeListing, SvcNodeChoice, SvcNodeFilter } from '../elements/fleet/svc-node-filter.js'
import { SvcNodeGrid, SvcNodeList } from '../elements/fleet/svc-node-list.js'
import { fleetRoom } from '../router.js'
import { serverAddress } from '../dom/address.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { learnFleet, may } from '../state/session.js'

/** Tokens that no machine has used yet. Properties: `items`, `client`. Events: `enrolled` after a change, `notice`. */
export class SvcEnrollments extends SvcElement {
  static override sheet = css`
    svc-enrollments {
      display: block;

      li { display: grid; grid-template-columns: minmax(0, 1fr) auto; align-items: center; gap: 4px 16px; padding: 10px 12px 10px 16px; }
      li + li { border-top: 1px solid var(--line); }
      .what { display: grid; gap: 2px; min-width: 0; color: var(--muted); font-size: var(--size-13); overflow-wrap: anywhere; }
      .what b { color: var(--text); font-weight: 500; font-size: var(--size-14); }
    }
  `

  items: readonly Enrollment[] = []
  client!: Client

  protected override view(): Template {
    return html`<ul>${this.items.map(item => keyed(item.id, html`<li>${this.#row(item)}</li>`))}</ul>`
  }

  #row(item: Enrollment): Template {
    const name = item.name ?? t('Any name')
    const facts = [
      ...labelTexts(item),
      t('valid until {time}', { time: exactWords(item.expiresAt) }),
      t('created by {name}', { name: actorWords(item.createdBy) })
    ]
    return html`
      <div class="what"><b translate="no">${name}</b><span>${facts.join(' · ')}</span></div>
      <button type="button" class="quiet" aria-label="${`${t('Revoke')} ${name}`}" @click="${() => void this.#revoke(item.id)}">${t('Revoke')}</button>`
  }

  async #revoke(id: string): Promise<void> {
    try {
      await this.client.call('DELETE /api/enrollments/:id', { id })
      this.dispatchEvent(notice(t('The token was revoked')))
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
    this.dispatchEvent(said('enrolled'))
  }
}

const loadWaiting = () => import('../elements/projects/svc-waiting.js')

const refreshMs = 5000
/** Longer lists are refreshed less often. */
const manyNodes = 1000
const manyRefreshMs = 30_000
/** Above this number of nodes, a list is shown instead of a grid, unless the reader asks for it. */
const manyTiles = 300

const stateLinks = {
  attention: { words: '{count} to look at' },
  connected: { words: '{count} connected' },
  lost: { words: '{count} not connected' },
  drained: { words: '{count} drained' }
} as const

/**
 * The nodes of the fleet: by tree as a grid, or as a list. Query: the filter (`q`, `project`, `label`, `state`, `tree`,
 * `view`); `enroll` opens the dialog that adds a machine.
 */
export class NodesPage extends Page {
  static override sheet = css`
    svc-page-nodes {
      > .page-head { align-items: center; }
      .counts { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: var(--size-13); }
      .counts .alarm { color: var(--failure); font-weight: 500; }
      ol.begin { display: grid; gap: 4px; padding-left: 20px; list-style: decimal; color: var(--muted); max-width: 60ch; }
    }
  `

  #nodes!: Resource<ListedNode[]>
  #enrollments: Resource<Enrollment[]> | undefined
  #index: NodeIndex = createNodeIndex([])
  #releases: readonly NodeRelease[] = []
  #waits: readonly Waiting[] = []
  #canShowWaits = false
  readonly #colors = createTreeColors()
  #isFormLoaded = false
  #loadedMs = 0

  protected override connected(): void {
    this.entitle(t('Nodes'), [{ words: t('Fleet') }])
    this.#nodes = this.resource(async signal => {
      const isFirst = this.#loadedMs === 0
      const [{ nodes, releases }] = await Promise.all([
        this.context.client.call('GET /api/nodes', { signal }),
        isFirst ? this.#loadWaiting(signal) : null
      ])
      this.#loadedMs = performance.now()
      this.#releases = releases
      this.#index = createNodeIndex(nodes)
      return nodes
    })
    if (may('enroll'))
      this.#enrollments = this.resource(
        async signal => (await this.context.client.call('GET /api/enrollments', { signal })).enrollments
      )
    this.repeat(refreshMs, () => {
      const isLong = this.#index.nodes.length > manyNodes
      if (!isLong || performance.now() - this.#loadedMs > manyRefreshMs) void this.#nodes.refresh()
      void this.#enrollments?.refresh()
    })
    this.context.marks.follow(() => {
      this.#waits = this.context.marks.waiting
      this.update()
    }, this.signal)
    this.moved()
  }

  protected override moved(): void {
    if (this.#isDialogOpen && !this.#isFormLoaded) void this.attempt(() => this.#loadForm())
  }

  async #loadForm(): Promise<void> {
    this.context.define((await import('../elements/fleet/svc-enroll.js')).elements)
    this.#isFormLoaded = true
  }

  get #isDialogOpen(): boolean {
    return this.place.query.has('enroll') && may('enroll')
  }

  get #filter(): NodeFilter {
    return filterOf(this.place.query)
  }

  protected override view(): Template {
    const filter = this.#filter
    this.#learn()
    return html`
      <div class="page-head">
        <div><h1>${t('Fleet')}</h1>${this.#index.nodes.length === 0 ? null : this.#counts()}</div>
        ${may('enroll') ? html`<a class="button primary" href="nodes?enroll">${icon('plus')}${t('Add node')}</a>` : null}
      </div>
      ${roomTabs(fleetRoom(), 'nodes')}
      ${this.#waiting()}
      ${staleLine(this.#nodes)}
      ${loaded(this.#nodes, 'the nodes', () => this.#list(filter))}
      ${this.#pending()}
      <svc-dialog heading="${t('Add a node')}" .content="${this.#isDialogOpen && this.#isFormLoaded ? this.#form() : null}"
        @dialogclose="${() => this.#show(filter)}"></svc-dialog>`
  }

  /** Shows the fleet in the navigation as soon as there is one. */
  #learn(): void {
    const [nodes, enrollments] = [this.#nodes.value, this.#enrollments?.value]
    if (nodes === undefined) return
    const has = nodes.length > 0 || (enrollments?.length ?? 0) > 0
    if (learnFleet(has, this.context.session)) this.dispatchEvent(said('framechange'))
  }

  /** Learns what waits before the nodes are shown, which it would move. */
  async #loadWaiting(signal: AbortSignal): Promise<void> {
    const { waiting } = await this.context.client.call('GET /api/marks', { signal }).catch(() => ({ waiting: [] }))
    if (waiting.length > 0) {
      this.context.define((await loadWaiting()).elements)
      this.#canShowWaits = true
    }
    this.#waits = waiting
  }

  /** Shows the rollouts that wait for a decision, or were halted. */
  #waiting(): Template | null {
    const items = this.#waits.filter(({ rolloutId }) => rolloutId !== null)
    if (items.length === 0 || !(this.#canShowWaits || this.late(loadWaiting, true))) return null
    return html`<svc-waiting .items="${items}"></svc-waiting>`
  }

  #counts(): Template {
    const { nodes, counts } = this.#index
    return html`
      <p class="counts number" role="status">
        <span>${countWords(nodes.length, 'node')}</span>
        ${chosenStates
          .filter(state => counts[state] > 0)
          .map(
            state => html`
            <a class="${state === 'lost' || state === 'attention' ? 'alarm' : null}" href="nodes?state=${state}">${t(stateLinks[state].words, { count: numberWords(counts[state]) })}</a>`
          )}
      </p>`
  }

  #list(filter: NodeFilter): Template {
    const { nodes } = this.#index
    if (nodes.length === 0) return this.#empty()
    const found = this.#index.find(filter)
    const view: NodeView = filter.view ?? (found.length > manyTiles ? 'list' : 'grid')
    return html`
      <div class="section">
        <svc-node-filter .filter="${filter}" .index="${this.#index}" .shownView="${view}"
          @nodefilter="${(event: Event) => this.#show((event as Said<'nodefilter'>).filter)}"></svc-node-filter>
        ${this.#found(found, { filter, view })}
      </div>`
  }

  #found(found: readonly ListedNode[], { filter, view }: { filter: NodeFilter; view: NodeView }): Template {
    const groups = groupByTree(found, filter, this.#releases)
    this.#colors.assign(treesOf(groups))
    const listing: NodeListing = { all: this.#index.nodes, found, groups, filter, view }
    return html`
      <svc-node-choice class="${view === 'list' || found.length === 0 ? 'card' : null}" .listing="${listing}" .colors="${this.#colors}"
        .client="${this.context.client}" @bulkdone="${() => void this.#nodes.load()}"></svc-node-choice>`
  }

  #empty(): Template {
    return html`
      <div class="card"><div class="state">
        <h2>${t('No nodes yet')}</h2>
        <p class="muted">${t('A node is another machine that receives the releases of this server, in waves that stop if something is wrong.')}</p>
        ${
          may('enroll')
            ? html`
            <ol class="begin">
              <li>${t('Add a node: you get a command with a one-time token.')}</li>
              <li>${t('Run the command on the machine. It connects to this server and appears here.')}</li>
              <li>${t('Place a project on it, in the tab “Nodes” of the project. The next push is rolled out there.')}</li>
            </ol>
            <a class="button" href="nodes?enroll">${icon('plus')}${t('Add node')}</a>`
            : html`<p class="muted">${t('Only an admin can add nodes.')}</p>`
        }
      </div></div>`
  }

  #pending(): Template | null {
    const items = this.#enrollments?.value ?? []
    if (items.length === 0) return null
    return html`
      <section class="section">
        <h2>${t('Waiting for their machine')}</h2>
        <div class="card">
          <svc-enrollments .items="${items}" .client="${this.context.client}"
            @enrolled="${() => void this.#enrollments?.load()}"></svc-enrollments>
        </div>
      </section>`
  }

  #form(): Template {
    return html`
      <svc-enroll .client="${this.context.client}"
        .server="${serverAddress(this.context.client.address(''))}" @enrolled="${() => void this.#enrollments?.load()}"
        @enrolldone="${() => this.#show(this.#filter)}"></svc-enroll>`
  }

  #show(filter: NodeFilter): void {
    this.context.go(addressOf(filter), { isReplacing: true })
  }
}

export const elements = {
  'svc-page-nodes': NodesPage,
  'svc-bulk-failures': SvcBulkFailures,
  'svc-choice-head': SvcChoiceHead,
  'svc-copy': SvcCopy,
  'svc-dialog': SvcDialog,
  'svc-enrollments': SvcEnrollments,
  'svc-mark': SvcMark,
  'svc-node-bulk': SvcNodeBulk,
  'svc-node-choice': SvcNodeChoice,
  'svc-node-filter': SvcNodeFilter,
  'svc-node-grid': SvcNodeGrid,
  'svc-node-list': SvcNodeList,
  'svc-rows': SvcRows,
  'svc-time': SvcTime,
  'svc-tree-mark': SvcTreeMark
}
