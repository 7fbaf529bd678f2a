import type { ListedPlacement } from '../../../lib/model/node.js'
import { html, type Template } from '../../dom/html.js'
import { countWords, t } from '../../words/t.js'

/** Nodes that are named. The others are on the page of the project's nodes. */
const namedNodes = 12

/** Says that a page of a placed project is on the pages of its nodes, with links to them. */
export function onNodes(what: 'files' | 'logs', placements: readonly ListedPlacement[]): Template {
  const projectId = placements[0]?.projectId ?? ''
  const named = placements.slice(0, namedNodes)
  return html`
    <div class="card"><div class="state">
      <h2>${what === 'files' ? t('The files of this project are on its nodes') : t('The log files of this project are on its nodes')}</h2>
      <p class="muted">${t('Choose a node. Its pages show them through this server.')}</p>
      <ul class="actions">
        ${named.map(
          ({ nodeId, nodeName }) => html`
          <li><a class="button" href="nodes/${nodeId}/projects/${projectId}/${what}" translate="no">${nodeName}</a></li>`
        )}
      </ul>
      ${
        placements.length > named.length
          ? html`<a href="projects/${projectId}/nodes">${t('All {nodes}', { nodes: countWords(placements.length, 'node') })}</a>`
          : null
      }
    </div></div>`
}
