import type { Client } from '../../server/client.js'
import { said, css, SvcElement } from '../element.js'
import type { ListedNode, ListedPlacement } from '../../../lib/model/node.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { createResource, loaded, type Resource } from '../../state/resource.js'
import { numberWords, t } from '../../words/t.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'
import { createNodeIndex, filterOf, labelTexts, type NodeIndex } from './node-filter.js'

/** Nodes that can be seen at once. The others are found by words, and can be chosen together. */
const shownNodes = 100

/**
 * The form that places a project on nodes. Properties: `project`; `placements`, where it is now; `client`. Events:
 * `placed`, `placecancel`.
 */
export class SvcPlaceForm extends SvcElement {
  static override sheet = css`
    svc-place-form {
      .list { display: grid; gap: 2px; max-height: 260px; padding: 4px; overflow-y: auto; border: 1px solid var(--line); border-radius: var(--radius); }
      .list label { display: grid; grid-template-columns: auto minmax(0, 1fr) auto; align-items: center; gap: 10px; min-height: 32px; padding: 4px 8px; border-radius: 4px; cursor: pointer; }
      .list label:hover { background: var(--hover); }
      .list b { font-weight: 500; }
      .list small { color: var(--muted); max-width: 200px; }
      .choice { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px; }
      .choice button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
    }
  `

  project!: Project
  placements: readonly ListedPlacement[] = []
  client!: Client
  #nodes!: Resource<ListedNode[]>
  #index: NodeIndex = createNodeIndex([])
  #text = ''
  readonly #chosen = new Set<string>()
  readonly #submission = new Submission(this)

  protected override connected(): void {
    this.#nodes = createResource({
      load: async signal => {
        const placed = new Set(this.placements.map(({ nodeId }) => nodeId))
        const nodes = (await this.client.call('GET /api/nodes', { signal })).nodes.filter(({ id }) => !placed.has(id))
        this.#index = createNodeIndex(nodes)
        return nodes
      },
      onChange: () => this.update(),
      signal: this.signal
    })
    void this.#nodes.load()
  }

  protected override view(): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#place(event)}">
        ${loaded(this.#nodes, 'the nodes', nodes => (nodes.length === 0 ? this.#none() : this.#choice()))}
        ${field({
          form: 'place',
          name: 'deployPath',
          label: t('Directory on these nodes (optional)'),
          isMono: true,
          placeholder: this.project.deployPath,
          hint: t('If empty, the directory of the project.'),
          error: this.#submission.problemOf('deployPath')
        })}
        ${errorLine(this.#submission.problemBeside(['deployPath']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('placecancel'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy || this.#chosen.size === 0}">
            ${this.#chosen.size < 2 ? t('Place') : t('Place on {count} nodes', { count: numberWords(this.#chosen.size) })}
          </button>
        </div>
      </form>`
  }

  #none(): Template {
    return this.placements.length > 0
      ? html`<p class="muted">${t('The project is on all nodes.')}</p>`
      : html`<p class="muted">${t('No nodes yet')}. <a href="nodes">${t('Go to nodes')}</a></p>`
  }

  #choice(): Template {
    const found = this.#index.find({ ...filterOf(new URLSearchParams()), words: this.#text })
    return html`
      <div class="field">
        <label for="place-find">${t('Nodes')}</label>
        <input id="place-find" type="search" placeholder="${t('Name or label')}" autocomplete="off" spellcheck="false" autofocus="" .value="${this.#text}"
          @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">
      </div>
      <div class="list" role="group" aria-label="${t('Nodes')}">
        ${found.slice(0, shownNodes).map(node => keyed(node.id, this.#option(node)))}
        ${found.length === 0 ? html`<p class="muted small">${t('Nothing found')}</p>` : null}
      </div>
      <p class="choice small">
        <span class="muted number" role="status">
          ${t('{count} of {all} chosen', { count: numberWords(this.#chosen.size), all: numberWords(this.#index.nodes.length) })}${found.length > shownNodes ? ` · ${t('{count} more. Type a name to find them.', { count: numberWords(found.length - shownNodes) })}` : null}
        </span>
        <span class="actions">
          <button type="button" @click="${() => this.#choose(found, true)}">${t('Choose all {count}', { count: numberWords(found.length) })}</button>
          <button type="button" @click="${() => this.#choose(found, false)}">${t('Choose none')}</button>
        </span>
      </p>`
  }

  #option(node: ListedNode): Template {
    const labels = labelTexts(node).join(' · ')
    return html`
      <label>
        <input type="checkbox" .checked="${this.#chosen.has(node.id)}"
          @change="${(event: Event) => this.#choose([node], (event.currentTarget as HTMLInputElement).checked)}">
        <b class="cut" translate="no" title="${node.name}">${node.name}</b><small class="cut" translate="no" title="${labels}">${labels}</small>
      </label>`
  }

  #find(text: string): void {
    this.#text = text
    this.update()
  }

  #choose(nodes: readonly ListedNode[], isChosen: boolean): void {
    for (const { id } of nodes) {
      if (isChosen) this.#chosen.add(id)
      else this.#chosen.delete(id)
    }
    this.update()
  }

  async #place(event: Event): Promise<void> {
    const { deployPath = '' } = submitted(event)
    const path = deployPath.trim()
    const add = [...this.#chosen].map(node => ({ node, ...(path !== '' && { deployPath: path }) }))
    await this.#submission.run(async () => {
      const { placements } = await this.client.call('PATCH /api/projects/:id/placements', {
        id: this.project.id,
        body: { add, remove: [] }
      })
      this.dispatchEvent(said('placed', { placements }))
    })
  }
}

export const elements = { 'svc-place-form': SvcPlaceForm }
