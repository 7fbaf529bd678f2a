import { panelPath } from '../../dom/address.js'
import type { Template } from '../../dom/html.js'
import { tabLinks } from '../base/room-tabs.js'
import { t } from '../../words/t.js'
import { hasFleet, isLookingAtNode, may } from '../../state/rights.js'

/**
 * Returns the links to the pages of a project. `isPlaced`: it is on nodes, so that its files are on their pages and not
 * here.
 */
export function projectTabs(
  projectId: string,
  here: '' | 'files' | 'nodes' | 'logs' | 'settings',
  { isPlaced = false } = {}
): Template {
  const address = panelPath`projects/${projectId}`
  return tabLinks(
    t('Project'),
    [
      { address, words: 'Deployments' },
      ...(hasFleet() && !isLookingAtNode() ? [{ address: `${address}/nodes`, words: 'Nodes' }] : []),
      ...(may('files') && !isPlaced ? [{ address: `${address}/files`, words: 'Files' }] : []),
      { address: `${address}/logs`, words: 'Logs' },
      ...(may('change_project') ? [{ address: `${address}/settings`, words: 'Settings' }] : [])
    ],
    here === '' ? address : `${address}/${here}`
  )
}
