import type { Deployer, Run } from '../deploy/deployer.js'
import { ndjson } from '../http/ndjson.js'
import type { Reply } from '../http/route.js'

/**
 * A run as it goes, one JSON object a line (§6.2). Who stops listening does not stop the run: the header says what to
 * ask for then. `page` is where people see it, as far as that is known.
 */
export function runReply(run: Run, deployer: Pick<Deployer, 'follow'>, page: string | null): Reply {
  const headers = { 'x-svc-deploy-id': run.deployId, ...(page !== null && { 'x-svc-deploy-url': page }) }
  return ndjson(
    async (write, signal) => {
      for await (const { line } of deployer.follow(run.deployId, { signal })) {
        await write({ event: 'log', data: line.text })
      }
      const { status, duration, id } = await run.finished
      await write({ event: 'status', status, duration, deployId: id })
    },
    { headers }
  )
}
