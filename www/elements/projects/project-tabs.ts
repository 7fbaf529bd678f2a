import type { Template } from '../../dom/html.js'
import { tabLinks } from '../base/room-tabs.js'
import { t } from '../../words/t.js'
import { may } from '../../state/rights.js'

/** Returns the links to the pages of a project. */
export function projectTabs(projectId: string, here: '' | 'files' | 'logs' | 'settings'): Template {
  const address = `projects/${projectId}`
  return tabLinks(
    t('Project'),
    [
      { address, words: 'Deployments' },
      ...(may('files') ? [{ address: `${address}/files`, words: 'Files' }] : []),
      { address: `${address}/logs`, words: 'Logs' },
      ...(may('change_project') ? [{ address: `${address}/settings`, words: 'Settings' }] : [])
    ],
    here === '' ? address : `${address}/${here}`
  )
}
