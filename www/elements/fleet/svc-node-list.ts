import type { ListedNode } from '../../../lib/model/node.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { formatBytes } from '../../shared/size.js'
import { numberWords, t } from '../../words/t.js'
import type { RowChoice } from '../base/row-choice.js'
import type { SvcRows } from '../base/svc-rows.js'
import { labelTexts, stateOf } from './node-filter.js'
import type { TreeColors } from './tree-colors.js'

/** Placements that a row shows. The others are counted. */
const shownPlacements = 2

/**
 * The nodes as a list of any length. Properties: `nodes`; `colors`; `project`, the id of the project whose trees are
 * shown, or empty for all; `choice`, `ids`, the chosen ones.
 */
export class SvcNodeList extends SvcElement {
  static override sheet = css`
    svc-node-list {
      display: block;

      svc-rows { --row-px: 57px; }
      .row {
        position: relative;
        display: grid;
        grid-template-columns: minmax(0, 2fr) 130px minmax(0, 2fr) minmax(0, 1fr) 110px;
        align-items: center;
        gap: 0 16px;
        height: 100%;
        padding: 0 16px;
      }
      .row:has(> input) { grid-template-columns: 16px minmax(0, 2fr) 130px minmax(0, 2fr) minmax(0, 1fr) 110px; }
      .row > input { position: relative; z-index: 1; }
      li + li .row { border-top: 1px solid var(--line); }
      .row.chosen { background: var(--accent-quiet); }
      .row:hover { background: var(--hover); }
      .row > a { display: grid; min-width: 0; color: inherit; }
      .row > a:hover { text-decoration: none; }
      /* The whole row is a link. */
      .row > a::after { content: ''; position: absolute; inset: 0; }
      .row > a:focus-visible { outline-color: transparent; }
      .row > a:focus-visible::after { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 6px; }
      .row b { font-weight: 500; }
      .row a span, .row .facts, .row svc-time { color: var(--muted); font-size: var(--size-13); }
      .row .states { display: grid; }
      .row .states svc-mark + svc-mark { font-size: var(--size-12); }
      .row .trees { display: flex; align-items: center; gap: 4px 12px; min-width: 0; overflow: hidden; }
      .row .trees > span { display: inline-flex; align-items: center; gap: 6px; min-width: 0; }
      .row .trees svc-tree-mark { flex: none; }
      .row .trees small { color: var(--muted); font-size: var(--size-12); }
      .row svc-time { text-align: right; }

      @media (max-width: 1079px) {
        .row { grid-template-columns: minmax(0, 2fr) 130px minmax(0, 2fr) 110px; }
        .row:has(> input) { grid-template-columns: 16px minmax(0, 2fr) 130px minmax(0, 2fr) 110px; }
        .row .facts { display: none; }
      }
      @media (max-width: 719px) {
        svc-rows { --row-px: 89px; }
        .row { grid-template: repeat(2, auto) / minmax(0, 1fr) auto; align-content: center; gap: 6px 12px; }
        .row .states { grid-area: 1 / 2; }
        .row .trees { grid-area: 2 / 1; }
        .row > svc-time, .row > .never { grid-area: 2 / 2; }
        .row:has(> input) {
          grid-template: repeat(2, auto) / 20px minmax(0, 1fr) auto;
          > input { grid-area: 1 / 1 / 3; width: 20px; height: 20px; }
          .states { grid-area: 1 / 3; }
          .trees { grid-area: 2 / 2; }
          > svc-time, > .never { grid-area: 2 / 3; }
        }
      }
    }
  `

  nodes: readonly ListedNode[] = []
  colors!: TreeColors
  project = ''
  choice!: RowChoice
  ids: ReadonlySet<string> = new Set()

  protected override view(): Template {
    // A new function each time, so that the rows are drawn again when the choice has changed.
    const row = (node: ListedNode, { isCurrent }: { isCurrent: boolean }): Template => this.#row(node, isCurrent)
    return html`
      <svc-rows label="${t('Nodes')}" .items="${this.nodes}" .key="${idOf}" .row="${row}"
        @keydown="${(event: Event) => this.#pressed(event as KeyboardEvent)}"></svc-rows>`
  }

  #pressed(event: KeyboardEvent): void {
    this.choice.pressed(event, (event.currentTarget as SvcRows<ListedNode>).current)
  }

  #row(node: ListedNode, isCurrent: boolean): Template {
    const { choice } = this
    const isChosen = this.ids.has(node.id)
    const stop = isCurrent ? null : '-1'
    const labels = labelTexts(node).join(' · ')
    const placements = node.placements.filter(({ projectId }) => this.project === '' || projectId === this.project)
    const shown = placements.slice(0, shownPlacements)
    const facts = [
      node.version,
      node.freeBytes === null ? null : t('{size} free', { size: formatBytes(node.freeBytes) })
    ]
    return html`
      <div class="${isChosen ? 'row chosen' : 'row'}">
        ${
          choice.isAllowed
            ? html`
            <input type="checkbox" tabindex="${stop}" aria-label="${t('Choose {name}', { name: node.name })}" .checked="${isChosen}"
              @click="${(event: Event) => choice.choose(node.id, (event as MouseEvent).shiftKey)}">`
            : null
        }
        <a href="nodes/${node.id}" translate="no" tabindex="${stop}">
          <b class="cut" title="${node.name}">${node.name}</b>
          <span class="cut" title="${labels}">${labels}</span>
        </a>
        <span class="states">
          <svc-mark kind="node" state="${stateOf(node)}"></svc-mark>
          ${node.isOutdated ? html`<svc-mark kind="agent" state="outdated"></svc-mark>` : null}
          ${node.sharedSince ? html`<svc-mark kind="agent" state="shared"></svc-mark>` : null}
        </span>
        <span class="trees">
          ${shown.map(
            ({ liveTree, projectName, isDrifted }) => html`
            <span>
              ${this.project === '' ? html`<small class="cut" translate="no" title="${projectName}">${projectName}</small>` : null}
              <svc-tree-mark tree="${liveTree}" color="${this.colors.of(liveTree)}" drifted="${isDrifted}"></svc-tree-mark>
            </span>`
          )}
          ${placements.length > shown.length ? html`<small>+${numberWords(placements.length - shown.length)}</small>` : null}
        </span>
        <span class="facts cut">${facts.filter(fact => fact !== null).join(' · ')}</span>
        ${
          node.lastSeenAt === null
            ? html`<span class="never muted small">${t('never')}</span>`
            : html`<svc-time at="${node.lastSeenAt}"></svc-time>`
        }
      </div>`
  }
}

const idOf = ({ id }: ListedNode): string => id
