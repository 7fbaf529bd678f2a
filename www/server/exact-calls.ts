import type { Deployment } from '../../lib/model/deployment.js'
import type { RollbackPlan, VerifyEvent } from '../../lib/model/plan.js'
import { createCall, placeOf, startDeployment } from './call.js'
import type { Client } from './client.js'
import { createNdjsonReader } from './ndjson.js'

/** How to go back. `mode` undefined: as the policy of the project says. */
export interface RollbackWish {
  mode?: RollbackPlan['mode']
  /** Whether files that were edited since are taken back, too. */
  force?: boolean
}

/** The API of the files that svc put into a target. Each function rejects as `Client.ask` does. */
export type ExactCalls = ReturnType<typeof createExactCalls>

/** Creates the calls. */
export function createExactCalls(client: Client) {
  const call = createCall(client)
  const asked = (wish: RollbackWish) => ({ ...wish, dryRun: true })
  const reasoned = (reason: string, wish: RollbackWish) => ({ ...wish, message: reason || null })
  return {
    /** `drift`: searches for edited files, unless that was done within the last hour. */
    summary: (id: string, { drift, signal }: { drift: boolean; signal: AbortSignal }) =>
      call('GET /api/projects/:id/tree', { id, query: { drift: drift ? '1' : undefined }, signal }),
    /** Lists the files that were edited or removed on the server. */
    drift: (id: string, signal: AbortSignal) => call('GET /api/projects/:id/drift', { id, signal }),
    /** Compares every file. Calls `onEvent` with each line of the answer. */
    async verify(id: string, { onEvent, signal }: { onEvent(event: VerifyEvent): void; signal: AbortSignal }) {
      const response = await client.send('GET', placeOf('GET /api/projects/:id/verify', { id }), { signal })
      const lines = createNdjsonReader(value => onEvent(value as VerifyEvent))
      const text = new TextDecoder()
      for await (const chunk of chunksOf(response)) lines.push(text.decode(chunk, { stream: true }))
      lines.end()
    },
    /** Starts a repair of these paths. Returns the id of the deployment. */
    repair: (id: string, paths: readonly string[]) =>
      startDeployment(client, 'POST /api/projects/:id/repair', { id, body: { paths } }),
    planUndo: (id: string, wish: RollbackWish, signal: AbortSignal) =>
      call('POST /api/projects/:id/undo', { id, body: asked(wish), signal }) as Promise<RollbackPlan>,
    /** Starts an undo with a reason, which may be empty. Returns the id of the deployment. */
    undo: (id: string, reason: string, wish: RollbackWish) =>
      startDeployment(client, 'POST /api/projects/:id/undo', { id, body: reasoned(reason, wish) }),
    planRollback: (id: string, wish: RollbackWish, signal: AbortSignal) =>
      call('POST /api/deployments/:id/rollback', { id, body: asked(wish), signal }) as Promise<RollbackPlan>,
    /** Starts a rollback like `undo`. */
    rollback: (id: string, reason: string, wish: RollbackWish) =>
      startDeployment(client, 'POST /api/deployments/:id/rollback', { id, body: reasoned(reason, wish) }),
    /** Deletes the archive of a deployment. `force`: also one that an exact undo needs. */
    deleteArchive: async (id: string, force: boolean) =>
      (await call('DELETE /api/deployments/:id/archive', { id, query: { force: force ? 'true' : undefined } }))
        .deployment as Deployment
  }
}

async function* chunksOf({ body }: Response): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) yield read.value
}
