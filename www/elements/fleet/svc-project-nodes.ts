import type { Client } from '../../server/client.js'
import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { ListedPlacement } from '../../../lib/model/node.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { ListedRollout } from '../../../lib/model/rollout.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { ElementTable } from '../../pages/page.js'
import { may } from '../../state/session.js'
import { numberWords, t, errorWords } from '../../words/t.js'
import { question, Submission } from '../base/form.js'
import { createTreeColors, SvcMark, SvcTreeMark } from './marks.js'
import { SvcPlaced } from './svc-placed.js'
import { SvcRollouts } from './svc-rollouts.js'

/** With fewer nodes, a field to find them would only be in the way. */
const fewNodes = 12

/**
 * The nodes of a project: what is in place on each, and where to place it. Properties: `project`, `placements`,
 * `rollouts`, the last ones; `client`; `define`, registers elements that are loaded late. Events: `placed`, `notice`.
 */
export class SvcProjectNodes extends SvcElement {
  static override sheet = css`
    svc-project-nodes {
      display: grid;
      gap: 32px;

      .above { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }
      .above input { flex: 1; min-width: 160px; max-width: 340px; }
      .trees { display: flex; flex-wrap: wrap; gap: 6px 16px; font-size: var(--size-13); }
      .trees li { display: inline-flex; align-items: center; gap: 6px; }
    }
  `

  project!: Project
  placements: readonly ListedPlacement[] = []
  rollouts: readonly ListedRollout[] = []
  client!: Client
  define!: (elements: ElementTable) => void
  #text = ''
  #dialog: 'none' | 'place' | ListedPlacement = 'none'
  readonly #colors = createTreeColors()
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { placements } = this
    return html`
      <section class="section">
        <div class="section-head">
          <h2>${t('Nodes of this project')}</h2>
          ${
            may('place') && placements.length > 0
              ? html`<button type="button" class="primary" @click="${() => void this.#openPlace()}">${icon('plus')}${t('Place on nodes…')}</button>`
              : null
          }
        </div>
        ${placements.length === 0 ? this.#empty() : this.#list()}
      </section>
      ${
        this.rollouts.length === 0
          ? null
          : html`
          <section class="section">
            <div class="section-head"><h2>${t('Rollouts')}</h2><a href="rollouts?project=${this.project.id}">${t('All rollouts')}</a></div>
            <div class="card"><svc-rollouts single="" .items="${this.rollouts}"></svc-rollouts></div>
          </section>`
      }
      <svc-dialog heading="${this.#heading()}" .content="${this.#content()}" @dialogclose="${() => this.#open('none')}"
        @placed="${(event: Event) => this.#placed(event as Said<'placed'>)}" @placecancel="${() => this.#open('none')}"></svc-dialog>`
  }

  #list(): Template {
    const words = this.#text.toLowerCase().split(/\s+/).filter(Boolean)
    const found = this.placements.filter(({ nodeName, deployPath, liveTree }) => {
      const text = `${nodeName} ${deployPath} ${liveTree ?? ''}`.toLowerCase()
      return words.every(word => text.includes(word))
    })
    const counts = new Map<string | null, number>()
    for (const { liveTree } of this.placements) counts.set(liveTree, (counts.get(liveTree) ?? 0) + 1)
    const trees = [...counts].sort(([, a], [, b]) => b - a)
    this.#colors.assign(trees.flatMap(([tree]) => tree ?? []))
    const drifted = this.placements.filter(({ isDrifted }) => isDrifted).length
    return html`
      <ul class="trees number">
        ${trees.map(
          ([tree, count]) => html`
          <li><svc-tree-mark tree="${tree}" color="${this.#colors.of(tree)}"></svc-tree-mark>${count === 1 ? t('1 node') : t('{count} nodes', { count: numberWords(count) })}</li>`
        )}
        ${drifted === 0 ? null : html`<li>${icon('edit')}${t('{count} drifted', { count: numberWords(drifted) })}</li>`}
      </ul>
      <p class="muted small">
        ${t('A push is rolled out to these nodes. Files, undo and the check of files are on the pages of each node (“On the node”); to go back on all, revert the rollout.')}
      </p>
      ${
        this.placements.length <= fewNodes
          ? null
          : html`
          <div class="above">
            <input type="search" aria-label="${t('Find nodes')}" placeholder="${t('Find nodes')}" .value="${this.#text}"
              @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">
            <span class="muted small number" role="status">${t('{count} of {all}', { count: numberWords(found.length), all: numberWords(this.placements.length) })}</span>
          </div>`
      }
      <div class="card">
        <svc-placed .of="${'node'}" .items="${found}" .colors="${this.#colors}" .tools="${may('place') ? this.#tools : null}"></svc-placed>
      </div>`
  }

  readonly #tools = (item: ListedPlacement): Template =>
    html`
    <button type="button" class="quiet" aria-label="${t('Remove from {name}', { name: item.nodeName })}" @click="${() => this.#open(item)}">${t('Remove…')}</button>`

  #empty(): Template {
    return html`
      <div class="card"><div class="state">
        <h2>${t('This project is deployed on this server only')}</h2>
        <p class="muted">${t('Place it on nodes, and the next push is rolled out there in waves, and no longer deployed here. What is in {path} here stays.', { path: this.project.deployPath })}</p>
        ${may('place') ? html`<button type="button" class="primary" @click="${() => void this.#openPlace()}">${icon('plus')}${t('Place on nodes…')}</button>` : null}
      </div></div>`
  }

  #heading(): string {
    if (this.#dialog === 'none') return ''
    if (this.#dialog === 'place') return t('Place {project} on nodes', { project: this.project.name })
    return t('Remove {project} from {name}?', { project: this.project.name, name: this.#dialog.nodeName })
  }

  #content(): Template | null {
    const dialog = this.#dialog
    if (dialog === 'none') return null
    if (dialog === 'place') {
      return html`<svc-place-form .project="${this.project}" .placements="${this.placements}" .client="${this.client}"></svc-place-form>`
    }
    const isLast = this.placements.length === 1
    return question({
      asked: html`
        <p>${t('The node gets no more releases of this project. Its files stay, and what runs there goes on.')}</p>
        ${isLast ? html`<p>${t('It is the last node: the next push is deployed on this server again.')}</p>` : null}`,
      submission: this.#submission,
      answer: t('Remove'),
      onAnswer: event => void this.#remove(event, dialog),
      onRefusal: () => this.#open('none')
    })
  }

  #find(text: string): void {
    this.#text = text
    this.update()
  }

  #open(dialog: 'none' | 'place' | ListedPlacement): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
  }

  async #openPlace(): Promise<void> {
    try {
      this.define((await import('./svc-place-form.js')).elements)
      this.#open('place')
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
  }

  #placed({ placements }: Said<'placed'>): void {
    this.placements = placements
    this.#open('none')
    this.dispatchEvent(notice(t('Saved')))
  }

  async #remove(event: Event, { nodeId }: ListedPlacement): Promise<void> {
    event.preventDefault()
    await this.#submission.run(async () => {
      const { placements } = await this.client.call('PATCH /api/projects/:id/placements', {
        id: this.project.id,
        body: { add: [], remove: [nodeId] }
      })
      this.dispatchEvent(said('placed', { placements }))
      this.placements = placements
      this.#open('none')
      this.dispatchEvent(notice(t('Saved')))
    })
  }
}

/** The elements that the page of a project registers for its nodes. */
export const elements = {
  'svc-project-nodes': SvcProjectNodes,
  'svc-mark': SvcMark,
  'svc-placed': SvcPlaced,
  'svc-rollouts': SvcRollouts,
  'svc-tree-mark': SvcTreeMark
}
