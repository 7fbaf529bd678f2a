import type { Deployment } from '../../lib/model/deployment.js'
import type { DriftReport } from '../../lib/model/plan.js'
import type { RollbackPlan } from '../../lib/model/rollback-plan.js'
import type { TreeSummary, VerifyEvent } from '../../lib/model/verify.js'
import { deployIdHeader } from './calls.js'
import type { Client } from './client.js'
import { createNdjsonReader } from './ndjson.js'

/** How to go back. `mode` undefined: as the policy of the project says. */
export interface RollbackWish {
  mode?: RollbackPlan['mode']
  /** Whether files that were edited since are taken back, too. */
  force?: boolean
}

/** The API of the files that svc put into a target. Each function rejects as `Client.ask` does. */
export interface ExactCalls {
  /** `drift`: searches for edited files, unless that was done within the last hour. */
  summary(projectId: string, options: { drift: boolean; signal: AbortSignal }): Promise<TreeSummary>
  /** Lists the files that were edited or removed on the server. */
  drift(projectId: string, signal: AbortSignal): Promise<DriftReport>
  /** Compares every file. Calls `onEvent` with each line of the answer. */
  verify(projectId: string, options: { onEvent(event: VerifyEvent): void; signal: AbortSignal }): Promise<void>
  /** Starts a repair of these paths. Returns the id of the deployment. */
  repair(projectId: string, paths: readonly string[]): Promise<string>
  planUndo(projectId: string, wish: RollbackWish, signal: AbortSignal): Promise<RollbackPlan>
  /** Starts an undo with a reason, which may be empty. Returns the id of the deployment. */
  undo(projectId: string, reason: string, wish: RollbackWish): Promise<string>
  planRollback(deployId: string, wish: RollbackWish, signal: AbortSignal): Promise<RollbackPlan>
  /** Starts a rollback like `undo`. */
  rollback(deployId: string, reason: string, wish: RollbackWish): Promise<string>
  /** Deletes the archive of a deployment. `force`: also one that an exact undo needs. */
  deleteArchive(deployId: string, force: boolean): Promise<Deployment>
}

/** Creates the calls. */
export function createExactCalls({ ask, send }: Client): ExactCalls {
  const project = (id: string): string => `api/projects/${encodeURIComponent(id)}`
  const deployment = (id: string): string => `api/deployments/${encodeURIComponent(id)}`

  /** Starts a deployment. The stream is cancelled: the page of the deployment follows it. The deployment continues. */
  async function start(path: string, body: object): Promise<string> {
    const response = await send('POST', path, { headers: { accept: 'application/x-ndjson' }, body })
    await response.body?.cancel()
    return response.headers.get(deployIdHeader) ?? ''
  }

  function plan(path: string, wish: RollbackWish, signal: AbortSignal): Promise<RollbackPlan> {
    return ask('POST', path, { body: { ...wish, dryRun: true }, signal })
  }

  return {
    summary: (id, { drift, signal }) => ask('GET', `${project(id)}/tree${drift ? '?drift=1' : ''}`, { signal }),
    drift: (id, signal) => ask('GET', `${project(id)}/drift`, { signal }),
    async verify(id, { onEvent, signal }) {
      const response = await send('GET', `${project(id)}/verify`, { signal })
      const lines = createNdjsonReader(value => onEvent(value as VerifyEvent))
      const text = new TextDecoder()
      for await (const chunk of chunksOf(response)) lines.push(text.decode(chunk, { stream: true }))
      lines.end()
    },
    repair: (id, paths) => start(`${project(id)}/repair`, { paths }),
    planUndo: (id, wish, signal) => plan(`${project(id)}/undo`, wish, signal),
    undo: (id, reason, wish) => start(`${project(id)}/undo`, { ...wish, message: reason || null }),
    planRollback: (id, wish, signal) => plan(`${deployment(id)}/rollback`, wish, signal),
    rollback: (id, reason, wish) => start(`${deployment(id)}/rollback`, { ...wish, message: reason || null }),
    async deleteArchive(id, force) {
      const path = `${deployment(id)}/archive${force ? '?force=true' : ''}`
      return (await ask<{ deployment: Deployment }>('DELETE', path)).deployment
    }
  }
}

async function* chunksOf({ body }: Response): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) yield read.value
}
