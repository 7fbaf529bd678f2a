import { witnessOf } from './state/audit-witness.js'
import { readDeployments } from './server/requests.js'
import { Refused, Unreachable } from './server/client.js'
import type { DeploymentRow } from '../lib/model/deployment.js'
import { notice, type Said } from './elements/element.js'
import { deploymentWords } from './elements/base/words.js'
import { t, errorWords } from './words/t.js'
import type { PageContext } from './pages/page.js'

/** Creates a function that returns the deployments that finished since its last call. Pure except for its memory. */
export function createEnded(): (newest: readonly DeploymentRow[]) => DeploymentRow[] {
  let going = new Set<string>()
  let newestStart: string | null = null
  return newest => {
    const isGoing = ({ status }: DeploymentRow): boolean => status === 'queued' || status === 'running'
    // A deployment may have started and finished between two calls.
    const isNew = ({ startTime }: DeploymentRow): boolean => newestStart !== null && startTime > newestStart
    const ended = newest.filter(each => !isGoing(each) && (going.has(each.id) || isNew(each)))
    going = new Set(newest.filter(isGoing).map(({ id }) => id))
    newestStart = [newestStart ?? '', ...newest.map(({ startTime }) => startTime)].sort().at(-1) as string
    return ended
  }
}

const looked = 5

/** While the tab is visible, shows a notice for each finished deployment that is not on the current page. */
export function watchEnded({ app, context }: { app: HTMLElement; context: PageContext }): void {
  const ended = createEnded()

  async function look(): Promise<void> {
    if (context.session.id === null) return
    try {
      const { items } = await readDeployments(context.client, { limit: looked })
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

const everyMs = 60 * 60_000

/** Compares the audit log of the server with what this browser saw, now and each hour; a fault is a notice that stays. */
export function watchAudit({ app, context }: { app: HTMLElement; context: PageContext }): void {
  const witness = witnessOf(context.client)

  async function look(): Promise<void> {
    if (context.session.id === null) return
    try {
      const sight = await witness.look()
      if (sight !== null && sight.fault !== null)
        app.dispatchEvent(notice(t(sight.fault, { before: sight.before, now: sight.now }), 'failed', 'audit'))
    } catch (error) {
      // The frame shows that the server cannot be reached; a token without the right is no witness.
      if (!(error instanceof Unreachable) && !(error instanceof Refused)) console.warn(errorWords(error))
    }
  }

  setInterval(() => void look(), everyMs)
  void look()
}
