import { css, SvcElement } from '../../dom/element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import type { RowChoice } from '../base/row-choice.js'
import { addressOf, noTree, stateOf, type NodeFilter, type TreeGroup } from './node-filter.js'
import type { TreeColors } from './tree-colors.js'

/** Nodes of a tree that are shown as tiles; the list shows the others. */
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
      ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(148px, 100%), 1fr)); gap: 8px; }
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
    const { project, tree, deployId, nodes } = group
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
          ${deployId === null ? null : html`<a href="deployments/${deployId}">${t('Open deployment')}</a>`}
          ${
            shown.length === nodes.length
              ? null
              : html`<a href="${list}">${t('Show all {count} as a list', { count: numberWords(nodes.length) })}</a>`
          }
        </header>
        <ul>${shown.map(member => keyed(member.node.id, this.#tile(member, color)))}</ul>
      </section>`
  }

  #tile({ node, placement }: Tile, color: string): Template {
    const { choice } = this
    const isChosen = this.ids.has(node.id)
    const state = stateOf(node)
    const isDrifted = placement?.isDrifted === true
    return html`
      <li class="${isChosen ? 'chosen' : null}">
        ${
          choice.isAllowed
            ? html`
            <input type="checkbox" tabindex="-1" aria-label="${t('Choose {name}', { name: node.name })}" .checked="${isChosen}"
              @click="${(event: Event) => choice.choose(node.id, (event as MouseEvent).shiftKey)}">`
            : null
        }
        <a href="nodes/${node.id}" class="${[color, state, isDrifted ? 'drifted' : ''].join(' ').trim()}">
          ${state === 'lost' ? html`${icon('failed')}<span class="unseen">${t('Not connected')}</span>` : null}
          ${state === 'drained' ? html`${icon('pause')}<span class="unseen">${t('Drained')}</span>` : null}
          ${node.isOutdated ? html`<span class="old">${icon('warning')}<span class="unseen">${t('Update the agent')}</span></span>` : null}
          ${node.sharedSince ? html`<span class="old">${icon('warning')}<span class="unseen">${t('Two machines use its identity')}</span></span>` : null}
          <span class="cut" translate="no" title="${node.name}">${node.name}</span>
          ${isDrifted ? html`${icon('edit')}<span class="unseen">${t('Drifted')}</span>` : null}
        </a>
      </li>`
  }
}

type Tile = TreeGroup['nodes'][number]

/** Returns the nodes that have a tile, in the order of the tiles. A node with several projects has several tiles. */
export function tilesOf(groups: readonly TreeGroup[]): Tile[] {
  return groups.flatMap(({ nodes }) => nodes.slice(0, shownTiles))
}
