import { oneLine } from '../base/one-line.js'
import { perObject } from '../base/per-object.js'
import type { Deployer, Run } from '../deploy/deployer.js'
import { linesOf } from '../deploy/stored-output.js'
import type { StoredBlock } from '../deploy/stored-output.js'
import { encodeLines, ndjson } from '../http/ndjson.js'
import type { Reply } from '../http/route.js'

/**
 * A run as it goes, one JSON object a line (§6.2). The run is recorded, so the head with its id is sent before anything
 * can fail. Who stops listening does not stop the run: the header says what to ask for then. `page` is where people see
 * it, as far as that is known.
 */
export function runReply(run: Run, deployer: Pick<Deployer, 'follow' | 'unrecorded'>, page: string | null): Reply {
  const headers = { 'x-svc-deploy-id': run.deployId, ...(page !== null && { 'x-svc-deploy-url': page }) }
  return ndjson(
    async (write, signal) => {
      try {
        for await (const block of deployer.follow(run.deployId, { signal })) await write(logLinesOf(block))
      } catch (error) {
        signal.throwIfAborted()
        // The run goes on, and how it ends is what counts.
        await write({ event: 'log', data: oneLine(`✗ the output cannot be read: ${(error as Error).message}`) })
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
  encodeLines(Array.from(linesOf(block), ({ line }) => ({ event: 'log', data: line.text }))))
