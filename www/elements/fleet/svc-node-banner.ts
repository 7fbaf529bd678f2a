import { html, type Template } from '../../dom/html.js'
import { tabLinks } from '../../pages/page.js'
import { lackOf } from '../../state/session.js'
import { t } from '../../words/t.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { panelPath } from '../../dom/address.js'
import { css, SvcElement } from '../element.js'
import { stateOf } from './node-filter.js'

/**
 * Returns the links to the pages of a node. `at`: the address of the node, absolute or below the base of the document;
 * `here`: the page that is shown, empty for the node itself.
 */
export function nodeTabs(at: string, here: string): Template {
  const links = [
    { address: at, words: 'Node' },
    { address: `${at}/projects`, words: 'Projects' },
    { address: `${at}/deployments`, words: 'Deployments' },
    { address: `${at}/logs`, words: 'Logs' },
    ...(lackOf('terminal') === null ? [{ address: `${at}/terminal`, words: 'Terminal' }] : []),
    ...(lackOf('health') === null ? [{ address: `${at}/system`, words: 'System' }] : [])
  ]
  return tabLinks(t('Pages of the node'), links, here === '' ? at : `${at}/${here}`)
}

const panelBase = document.baseURI

/**
 * Says that the page below is one of a node and not of this server, with links to the other pages of the node. Property:
 * `node`, or null if it is not known; `here`, the page that is shown.
 */
export class SvcNodeBanner extends SvcElement {
  static override sheet = css`
    svc-app > .frame > .content > main > svc-node-banner {
      gap: 8px;
      margin-bottom: 24px;

      > p {
        display: flex;
        flex-wrap: wrap;
        align-items: center;
        gap: 4px 16px;
        padding: 8px 14px;
        border-left: 4px solid var(--accent);
        border-radius: var(--radius);
        background: var(--accent-quiet);
      }
      > p > span { min-width: 0; overflow-wrap: anywhere; }
      > p > a { margin-left: auto; font-size: var(--size-13); }
    }
  `

  node: ListedNode | null = null
  here = ''

  /** The word for the room of the nodes, for the path to the page. */
  get roomWords(): string {
    return t('Fleet')
  }

  protected override view(): Template {
    const { node } = this
    if (node === null) return html``
    const address = new URL(panelPath`nodes/${node.id}`, panelBase).href
    const [before = '', after = ''] = t('You are looking at the node {name}, through this server.').split('{name}')
    return html`
      <p>
        <span>${before}<b translate="no">${node.name}</b>${after}</span>
        <svc-mark kind="node" state="${stateOf(node)}"></svc-mark>
        <a href="${new URL('nodes', panelBase).href}">${t('All nodes')}</a>
      </p>
      ${nodeTabs(address, this.here)}`
  }
}
