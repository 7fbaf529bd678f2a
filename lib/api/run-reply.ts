import { oneLine } from '../base/text.js'
import { perObject } from '../base/async.js'
import type { Run } from '../deploy/admission.js'
import type { Deployer } from '../deploy/deployer.js'
import { isFinal } from '../deploy/status.js'
import { linesOf, type StoredBlock } from '../deploy/output/stored-output.js'
import { encodeLines, ndjson } from '../http/streams.js'
import type { Reply } from '../http/core/route.js'

/**
 * Streams the output of a deployment, one JSON object per line (§6.2). The deployment is already recorded, so the
 * headers with its id are sent at once. A client that disconnects does not stop the deployment; with the id it can ask
 * for the rest. An event `confirm` says that the deployment waits to be confirmed. `page` is the URL of the
 * deployment's page, or null if the server does not know it.
 */
export function runReply(
  run: Run,
  deployer: Pick<Deployer, 'follow' | 'unrecorded' | 'confirmUntil'>,
  page: string | null
): Reply {
  const headers = { 'x-svc-deploy-id': run.deployId, ...(page !== null && { 'x-svc-deploy-url': page }) }
  return ndjson(
    async (write, signal) => {
      try {
        let told: string | null = null
        for await (const block of deployer.follow(run.deployId, { signal })) {
          await write(logLinesOf(block))
          const until = deployer.confirmUntil(run.deployId)
          if (until !== null && until !== told) await write({ event: 'confirm', deployId: run.deployId, until })
          told = until
        }
      } catch (error) {
        signal.throwIfAborted()
        // The deployment continues, and the client still needs its result.
        await write({ event: 'log', data: oneLine(`✗ Cannot read the output: ${(error as Error).message}`) })
      }
      const { status, duration, id } = await run.finished
      // The server stops, and the next start continues the deployment: the client connects again.
      if (!isFinal(status)) return
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
