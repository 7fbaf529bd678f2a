import { css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import type { RowChoice } from '../base/row-choice.js'
import { deploymentWords } from '../base/words.js'
import { addressOf, labelTexts, type NodeFilter, noTree, stateOf, type TreeGroup, urgentCount } from './node-filter.js'
import { phaseRows, type TreeColors } from './marks.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { formatBytes } from '../../shared/api.js'
import type { SvcRows } from '../base/svc-rows.js'

/** Nodes of a tree that are shown as tiles, unless more need attention; the list shows the others. */
const shownTiles = 60

/**
 * The nodes as tiles, a section for each tree of a project. Properties: `groups`, `colors`; `filter`, which the links to
 * the list keep; `choice`, `ids`, the chosen ones.
 */
export class SvcNodeGrid extends SvcElement {
  static override sheet = css`
    svc-node-grid {
      display: grid;
      gap: 24px;
      margin-top: 12px;

      section { display: grid; gap: 10px; }
      header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; min-width: 0; }
      header h2 { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 10px; min-width: 0; font-size: var(--size-14); overflow-wrap: anywhere; }
      header p { color: var(--muted); font-size: var(--size-13); }
      header a:last-child { font-size: var(--size-13); }
      ul { --tile-px: 148px; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(var(--tile-px), 100%), 1fr)); gap: 8px; }
      ul.wide { --tile-px: 232px; }
      ul.widest { --tile-px: 320px; }
      li { position: relative; }
      /* Space on the link chooses, so Tab stops once at each tile. */
      li > input { position: absolute; top: calc(50% - 8px); left: 14px; }
      li > input + a { padding-left: 36px; }
      li > a {
        display: flex;
        align-items: center;
        gap: 8px;
        min-height: var(--row);
        padding: 4px 10px;
        border: 1px solid var(--line);
        border-left: 4px solid var(--label-gray);
        border-radius: var(--radius);
        background: var(--raised);
        color: inherit;
        font-size: var(--size-13);
      }
      li > a:hover { background: var(--hover); text-decoration: none; }
      li > a > .cut { flex: 1; }
      .blue { border-left-color: var(--label-blue); background: var(--label-blue-quiet); }
      .green { border-left-color: var(--label-green); background: var(--label-green-quiet); }
      .yellow { border-left-color: var(--label-yellow); background: var(--label-yellow-quiet); }
      .purple { border-left-color: var(--label-purple); background: var(--label-purple-quiet); }
      .pink { border-left-color: var(--label-pink); background: var(--label-pink-quiet); }
      .cyan { border-left-color: var(--label-cyan); background: var(--label-cyan-quiet); }
      .chosen > a { outline: 2px solid var(--accent); outline-offset: -1px; }
      .chosen > a:focus-visible { outline-offset: 2px; }
      @media (max-width: 719px) {
        li > input { top: calc(50% - 10px); left: 12px; width: 20px; height: 20px; }
        li > input + a { padding-left: 40px; min-height: 44px; }
      }
      .lost > .icon { color: var(--failure); }
      .troubled { border-color: var(--failure); }
      /* Its name and its word need more space than a narrow tile has. */
      ul:not(.wide, .widest) > li:has(> .troubled) { grid-column: span 2; }
      @media (max-width: 719px) {
        ul:not(.wide, .widest) > li:has(> .troubled) { grid-column: 1 / -1; }
      }
      .troubled > small { color: var(--failure); font-weight: 500; }
      .old { display: inline-flex; color: var(--warning); }
      .drained { color: var(--muted); }
      .drifted > .icon:last-of-type { color: var(--warning); }
    }
  `

  groups: readonly TreeGroup[] = []
  colors!: TreeColors
  filter!: NodeFilter
  choice!: RowChoice
  ids: ReadonlySet<string> = new Set()

  protected override connected(): void {
    this.listen(this, 'keydown', event => this.#pressed(event as KeyboardEvent))
  }

  #pressed(event: KeyboardEvent): void {
    // The arrows do not move in the grid.
    if (event.key.startsWith('Arrow')) return
    const tile = (event.target as HTMLElement).closest('li')
    this.choice.pressed(event, tile === null ? -1 : [...this.querySelectorAll('li')].indexOf(tile))
  }

  protected override view(): Template {
    return html`${this.groups.map(group => keyed(group.key, this.#group(group)))}`
  }

  #group(group: TreeGroup): Template {
    const { project, tree, nodes } = group
    const color = this.colors.of(tree)
    const shown = tilesOf([group])
    const list = addressOf({
      ...this.filter,
      project: project?.id ?? '',
      tree: project === null ? '' : (tree ?? noTree),
      view: 'list'
    })
    return html`
      <section>
        <header>
          <h2>
            ${
              project === null
                ? t('Without a project')
                : html`<a href="projects/${project.id}/nodes" translate="no">${project.name}</a><svc-tree-mark tree="${tree}" color="${color}"></svc-tree-mark>`
            }
          </h2>
          <p class="number">
            ${nodes.length === 1 ? t('1 node') : t('{count} nodes', { count: numberWords(nodes.length) })}
          </p>
          ${releaseOf(group)}
          ${
            shown.length === nodes.length
              ? null
              : html`<a href="${list}">${t('Show all {count} as a list', { count: numberWords(nodes.length) })}</a>`
          }
        </header>
        <ul class="${tileWidth(shown)}">${shown.map(member => keyed(member.node.id, this.#tile(member, color)))}</ul>
      </section>`
  }

  #tile({ node, placement }: Tile, color: string): Template {
    const { choice } = this
    const isChosen = this.ids.has(node.id)
    const state = stateOf(node)
    const isDrifted = placement?.isDrifted === true
    const phase = placement?.trouble?.phase
    return html`
      <li class="${isChosen ? 'chosen' : null}">
        ${
          choice.isAllowed
            ? html`
            <input type="checkbox" tabindex="-1" aria-label="${t('Choose {name}', { name: node.name })}" .checked="${isChosen}"
              @click="${(event: Event) => choice.choose(node.id, (event as MouseEvent).shiftKey)}">`
            : null
        }
        <a href="nodes/${node.id}" class="${[color, state, isDrifted ? 'drifted' : '', phase === undefined ? '' : 'troubled'].join(' ').trim()}">
          ${state === 'lost' ? html`${icon('failed')}<span class="unseen">${t('Not connected')}</span>` : null}
          ${state === 'drained' ? html`${icon('pause')}<span class="unseen">${t('Drained')}</span>` : null}
          ${node.isOutdated ? html`<span class="old">${icon('warning')}<span class="unseen">${t('Update the agent')}</span></span>` : null}
          ${node.sharedSince ? html`<span class="old">${icon('warning')}<span class="unseen">${t('Two machines use its identity')}</span></span>` : null}
          <span class="cut" translate="no" title="${node.name}">${node.name}</span>
          ${phase === undefined ? null : html`<small>${t(phaseRows[phase].words)}</small>`}
          ${isDrifted ? html`${icon('edit')}<span class="unseen">${t('Drifted')}</span>` : null}
        </a>
      </li>`
  }
}

type Tile = TreeGroup['nodes'][number]

/** Returns the class of tiles that have room for these names, which often differ at their ends only. */
function tileWidth(tiles: readonly Tile[]): string {
  const longest = Math.max(0, ...tiles.map(({ node }) => node.name.length))
  return longest > 22 ? 'widest' : longest > 10 ? 'wide' : ''
}

/** Returns which release a group of nodes has, and whether it is the newest one. */
export function releaseOf({ deployId, release, isNewest }: TreeGroup): Template | null {
  if (release === null)
    return deployId === null ? null : html`<a href="deployments/${deployId}">${t('Open deployment')}</a>`
  return html`
    <p><a href="deployments/${release.id}" translate="no">${deploymentWords(release)}</a>, <svc-time at="${release.startTime}"></svc-time></p>
    ${isNewest ? html`<span class="newest">${t('newest')}</span>` : null}`
}

/** Returns the nodes that have a tile, in the order of the tiles. A node with several projects has several tiles. */
export function tilesOf(groups: readonly TreeGroup[]): Tile[] {
  return groups.flatMap(group => group.nodes.slice(0, Math.max(shownTiles, urgentCount(group))))
}

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
      .row > a { display: grid; min-width: 0; }
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
    const troubles = new Set(placements.flatMap(({ trouble }) => trouble?.phase ?? []))
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
          ${[...troubles].slice(0, 1).map(phase => html`<svc-mark kind="phase" state="${phase}"></svc-mark>`)}
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
