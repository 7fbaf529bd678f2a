import { type Said, css } from '../elements/element.js'
import type { ListedNode } from '../../lib/model/node.js'
import { html, type Template } from '../dom/html.js'
import { SvcTime } from '../elements/base/facts.js'
import { isUnknown, missing, Page } from './page.js'
import { SvcDialog } from '../elements/base/form.js'
import { exactWords } from '../elements/base/words.js'
import { createTreeColors, SvcMark, SvcTreeMark } from '../elements/fleet/marks.js'
import { labelTexts, stateOf } from '../elements/fleet/node-filter.js'
import { nodeTabs } from '../elements/fleet/svc-node-banner.js'
import { SvcNodeActions } from '../elements/fleet/svc-node-actions.js'
import { SvcPlaced } from '../elements/fleet/svc-placed.js'
import { formatBytes } from '../shared/api.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { countWords, t } from '../words/t.js'

const refreshMs = 5000

/** A node: its facts, what is placed there, and links to its own pages. */
export class NodePage extends Page {
  static override sheet = css`
    svc-page-node {
      .lead { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; color: var(--muted); }
      .labels { display: flex; flex-wrap: wrap; gap: 4px; }
      .labels span { padding: 1px 8px; border-radius: 4px; background: var(--label-gray-quiet); color: var(--label-gray); font-size: var(--size-12); overflow-wrap: anywhere; }
      .away { display: grid; gap: 4px; padding: 12px 16px; border-left: 4px solid var(--warning); border-radius: var(--radius); background: var(--warning-quiet); }
      dl { display: grid; grid-template-columns: 160px minmax(0, 1fr); gap: 8px 16px; padding: 16px; }
      dt { color: var(--muted); }
      dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
      @media (max-width: 719px) { dl { grid-template-columns: minmax(0, 1fr); gap: 2px; } dd { margin-bottom: 8px; } }
    }
  `

  #node!: Resource<ListedNode>
  readonly #colors = createTreeColors()

  get #id(): string {
    return this.place.params['node'] as string
  }

  protected override connected(): void {
    this.entitle(t('Node'), [{ words: t('Fleet'), address: 'nodes' }])
    this.#node = this.resource(
      async signal => (await this.context.client.call('GET /api/nodes/:node', { node: this.#id, signal })).node
    )
    this.repeat(refreshMs, () => void this.#node.refresh())
  }

  protected override view(): Template {
    if (this.#node.value === undefined && isUnknown(this.#node.error)) {
      const list = { address: 'nodes', words: t('Go to nodes') }
      return missing({ words: t('Node not found'), id: this.#id, list })
    }
    return html`${loaded(this.#node, 'the node', node => this.#page(node))}`
  }

  #page(node: ListedNode): Template {
    this.entitle(node.name, [{ words: t('Fleet'), address: 'nodes' }, { words: node.name }])
    const labels = labelTexts(node)
    return html`
      <div class="page-head">
        <div>
          <h1 translate="no">${node.name}</h1>
          <div class="lead">
            <svc-mark kind="node" state="${stateOf(node)}"></svc-mark>
            ${node.isDrained && !node.isConnected ? html`<svc-mark kind="node" state="lost"></svc-mark>` : null}
            ${node.isOutdated ? html`<svc-mark kind="agent" state="outdated"></svc-mark>` : null}
            ${node.sharedSince ? html`<svc-mark kind="agent" state="shared"></svc-mark>` : null}
            ${labels.length === 0 ? null : html`<span class="labels" translate="no">${labels.map(label => html`<span>${label}</span>`)}</span>`}
          </div>
        </div>
        <svc-node-actions .node="${node}" .client="${this.context.client}"
          @nodechange="${(event: Event) => this.#node.set((event as Said<'nodechange'>).node)}"
          @nodeforgotten="${(event: Event) => this.#forgotten(event as Said<'nodeforgotten'>)}"></svc-node-actions>
      </div>
      ${nodeTabs(`nodes/${node.id}`, '')}
      ${staleLine(this.#node)}
      ${node.isConnected ? null : away(node)}
      ${this.#placements(node)}
      <section class="section">
        <h2>${t('Details')}</h2>
        <dl class="card number">${facts(node).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
      </section>`
  }

  #placements({ placements }: ListedNode): Template {
    this.#colors.assign([...new Set(placements.flatMap(({ liveTree }) => liveTree ?? []))])
    return html`
      <section class="section">
        <div class="section-head">
          <h2>${t('Projects on this node')}</h2>
          ${placements.length === 0 ? null : html`<span class="muted small number">${countWords(placements.length, 'project')}</span>`}
        </div>
        <div class="card">
          ${
            placements.length === 0
              ? html`
              <div class="state">
                <h2>${t('No project is placed here')}</h2>
                <p class="muted">${t('Open a project and place it on this node, in its tab “Nodes”. The next push is rolled out here.')}</p>
                <a class="button" href="projects">${t('Go to projects')}</a>
              </div>`
              : html`<svc-placed .items="${placements}" .colors="${this.#colors}"></svc-placed>`
          }
        </div>
      </section>`
  }

  #forgotten({ node }: Said<'nodeforgotten'>): void {
    this.notify(t('{name} was removed from the fleet', { name: node.name }))
    this.context.go('nodes', { isReplacing: true })
  }
}

/** Returns what is known about a node without a connection. */
function away({ lastSeenAt }: ListedNode): Template {
  return html`
    <div class="away" role="status">
      <b>${t('This node is not connected')}</b>
      <span>
        ${lastSeenAt === null ? t('It was never connected.') : html`${t('Last seen')} <svc-time at="${lastSeenAt}"></svc-time> ·`} ${t('What is shown here is what it said last. Check that “svc agent” runs there, and that the machine reaches this server.')}
      </span>
    </div>`
}

function facts(node: ListedNode): Array<[string, unknown]> {
  const { version, freeBytes, enrolledAt, lastSeenAt, id, publicKey } = node
  const rows: Array<[string, unknown]> = [
    [t('Version of svc'), version],
    [t('Free space'), freeBytes === null ? null : formatBytes(freeBytes)],
    [t('Last seen'), lastSeenAt === null ? t('never') : html`<svc-time at="${lastSeenAt}"></svc-time>`],
    [t('Joined'), exactWords(enrolledAt)],
    [t('Public key'), html`<code translate="no">${publicKey}</code>`],
    [t('Id'), html`<code>${id}</code>`]
  ]
  return rows.filter(([, value]) => value !== null)
}

export const elements = {
  'svc-page-node': NodePage,
  'svc-dialog': SvcDialog,
  'svc-mark': SvcMark,
  'svc-node-actions': SvcNodeActions,
  'svc-placed': SvcPlaced,
  'svc-time': SvcTime,
  'svc-tree-mark': SvcTreeMark
}
