import { notice, type Said } from './elements/events.js'
import type { DeploymentRow } from '../lib/model/deployment.js'
import { deploymentWords } from './elements/base/words.js'
import { errorWords } from './words/errors.js'
import type { PageContext } from './pages/page.js'
import { Unreachable } from './server/client.js'
import { createEnded } from './state/ended.js'
import { t } from './words/t.js'

const looked = 5

/** While the tab is visible, shows a notice for each finished deployment that is not on the current page. */
export function watchEnded({ app, context }: { app: HTMLElement; context: PageContext }): void {
  const ended = createEnded()

  async function look(): Promise<void> {
    if (context.session.id === null) return
    try {
      const { items } = await context.calls.deployments({ limit: looked })
      for (const deployment of ended(items).filter(isElsewhere))
        app.dispatchEvent(noticeOf(deployment, addressOf(deployment)))
    } catch (error) {
      // The frame shows that the server cannot be reached.
      if (!(error instanceof Unreachable)) console.warn(errorWords(error))
    }
  }

  const addressOf = ({ id }: DeploymentRow): string => context.client.address(`deployments/${id}`)
  context.changes.follow(['deployments'], () => void look(), new AbortController().signal)
  void look()
}

/** Whether another page is open than that of the deployment or its project, which show the result themselves. */
function isElsewhere({ id, projectId }: DeploymentRow): boolean {
  return !location.pathname.includes(id) && !location.pathname.includes(projectId)
}

function noticeOf(deployment: DeploymentRow, address: string): Said<'notice'> {
  const values = { project: deployment.projectName, deployment: deploymentWords(deployment) }
  return deployment.status === 'failed'
    ? notice(t('{project}: “{deployment}” failed', values), 'failed', address)
    : notice(t('{project}: “{deployment}” is deployed', values), 'success', address)
}
