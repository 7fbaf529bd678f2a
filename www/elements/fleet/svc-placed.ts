import type { ListedPlacement } from '../../../lib/model/node.js'
import { css, SvcElement } from '../element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import type { TreeColors } from './marks.js'

/** Rows that are shown at first, and added with each press. */
const pageRows = 100

/**
 * Projects on a node, or the nodes of a project, with what is in place. Properties: `items`, `colors`; `of`: whether the
 * rows are named by their `project` or by their `node`; `tools`, returns the controls of a row, or null.
 */
export class SvcPlaced extends SvcElement {
  static override sheet = css`
    svc-placed {
      display: block;

      li { display: grid; grid-template-columns: minmax(0, 1.4fr) minmax(0, 1.6fr) auto 110px auto; align-items: center; gap: 4px 16px; min-height: 52px; padding: 8px 16px; }
      li + li { border-top: 1px solid var(--line); }
      .what { display: grid; gap: 2px; min-width: 0; }
      .what a { font-weight: 500; overflow-wrap: anywhere; }
      .what code, svc-time, .small { color: var(--muted); font-size: var(--size-13); }
      .what code { overflow-wrap: anywhere; }
      .live { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; min-width: 0; }
      .live a, .links a { font-size: var(--size-13); }
      li > svc-time, li > .small { text-align: right; }
      .tools { display: flex; justify-content: flex-end; }
      .more { display: flex; justify-content: space-between; align-items: center; gap: 16px; padding: 10px 16px; border-top: 1px solid var(--line); }
      @media (min-width: 720px) {
        li:not(:has(> .tools)) { grid-template-columns: minmax(0, 1.4fr) minmax(0, 1.6fr) auto 110px; }
      }
      @media (max-width: 719px) {
        li { grid-template-columns: minmax(0, 1fr) auto; padding-block: 12px; }
        .what { grid-area: 1 / 1 / 2 / 3; }
        .live { grid-column: 1; }
        .tools { grid-area: 2 / 2 / 4; }
      }
    }
  `

  items: readonly ListedPlacement[] = []
  colors!: TreeColors
  of: 'project' | 'node' = 'project'
  tools: ((item: ListedPlacement) => Template | null) | null = null

  #most = pageRows

  protected override view(): Template {
    const shown = this.items.slice(0, this.#most)
    return html`
      <ul>${shown.map(item => keyed(`${item.projectId} ${item.nodeId}`, html`<li>${this.#row(item)}</li>`))}</ul>
      ${
        shown.length === this.items.length
          ? null
          : html`
          <div class="more">
            <span class="muted small number">${t('{count} of {all}', { count: numberWords(shown.length), all: numberWords(this.items.length) })}</span>
            <button type="button" @click="${() => this.#showMore()}">${t('Show more')}</button>
          </div>`
      }`
  }

  #showMore(): void {
    this.#most += pageRows
    this.update()
  }

  #row(item: ListedPlacement): Template {
    const { liveTree, liveDeployId, isDrifted, seenAt, deployPath } = item
    return html`
      <div class="what">
        ${
          this.of === 'project'
            ? html`<a href="projects/${item.projectId}" translate="no">${item.projectName}</a>`
            : html`<a href="nodes/${item.nodeId}" translate="no">${item.nodeName}</a>`
        }
        <code translate="no">${deployPath}</code>
      </div>
      <div class="live">
        <svc-tree-mark tree="${liveTree}" color="${this.colors.of(liveTree)}" drifted="${isDrifted}"></svc-tree-mark>
        ${liveDeployId === null ? null : html`<a href="deployments/${liveDeployId}">${t('Deployment')}</a>`}
        ${liveDeployId === null && liveTree !== null ? html`<span class="small">${t('deployed on the node itself')}</span>` : null}
      </div>
      <div class="links"><a href="nodes/${item.nodeId}/projects/${item.projectId}">${t('On the node')}</a></div>
      ${seenAt === null ? html`<span class="small">${t('never')}</span>` : html`<svc-time at="${seenAt}"></svc-time>`}
      ${this.tools === null ? null : html`<div class="tools">${this.tools(item)}</div>`}`
  }
}
