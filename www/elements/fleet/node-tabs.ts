import type { Template } from '../../dom/html.js'
import { tabLinks } from '../base/room-tabs.js'
import { lackOf } from '../../state/rights.js'
import { t } from '../../words/t.js'

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
