import { oneLine } from '../base/one-line.js'
import { perObject } from '../base/per-object.js'
import type { Run } from '../deploy/admission.js'
import type { Deployer } from '../deploy/deployer.js'
import { linesOf } from '../deploy/output/stored-output.js'
import type { StoredBlock } from '../deploy/output/stored-output.js'
import { encodeLines, ndjson } from '../http/stream/ndjson.js'
import type { Reply } from '../http/core/route.js'

/**
 * Streams the output of a deployment, one JSON object per line (§6.2). The deployment is already recorded, so the
 * headers with its id are sent at once. A client that disconnects does not stop the deployment; with the id it can ask
 * for the rest. `page` is the URL of the deployment's page, or null if the server does not know it.
 */
export function runReply(run: Run, deployer: Pick<Deployer, 'follow' | 'unrecorded'>, page: string | null): Reply {
  const headers = { 'x-svc-deploy-id': run.deployId, ...(page !== null && { 'x-svc-deploy-url': page }) }
  return ndjson(
    async (write, signal) => {
      try {
        for await (const block of deployer.follow(run.deployId, { signal })) await write(logLinesOf(block))
      } catch (error) {
        signal.throwIfAborted()
        // The deployment continues, and the client still needs its result.
        await write({ event: 'log', data: oneLine(`✗ Cannot read the output: ${(error as Error).message}`) })
      }
      const { status, duration, id } = await run.finished
      const unrecorded = deployer.unrecorded(id)
      if (unrecorded !== null) await write({ event: 'log', data: `→ ${unrecorded}` })
      await write({ event: 'status', status, duration, deployId: id })
    },
    { headers, isBegun: true }
  )
}

const logLinesOf = perObject((block: StoredBlock) =>
  encodeLines(Array.from(linesOf(block), ({ line }) => ({ event: 'log', data: line.text })))
)
