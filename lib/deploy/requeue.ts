/*
 * Deployments of placed projects that were queued when the server stopped, or when another hub led: they are queued again,
 * in the same order. Nothing of them depends on the machine on which they began to wait.
 */
import { withAnySignal } from '../base/async.js'
import { existsSync } from 'node:fs'
import { notFound, reasonOf, Refusal } from '../base/errors.js'
import type { DeploymentRow } from '../model/deployment.js'
import { findQueuedRelease } from '../store/tables/fleet.js'
import { StopRequest } from './failure.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { Live } from './output/live.js'
import type { Queue } from './queue.js'
import { takeUp } from './resume.js'
import { addSaying } from './rollout-ahead.js'
import type { Runner } from './run.js'
import type { Planned } from './turn.js'

/** Dependencies of `createRequeue`. */
export interface RequeueNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'fleet' | 'copies'> {
  files: DeployFiles
  live: Live
  queue: Queue
  runner: Pick<Runner, 'run' | 'drop'>
}

/** Maximum time in which another hub sends an archive. */
const maxFetchMs = 10 * 60_000

/** Creates the function that queues a deployment again. */
export function createRequeue({ store, clock, fleet, copies, files, live, queue, runner }: RequeueNeeds) {
  /** Gets what the deployment needs: the archive, and what the client sent with it. */
  async function prepare(planned: Planned): Promise<Planned> {
    const { row, live: run } = planned
    const limits = { signals: [run.signal, run.suspending], withinMs: maxFetchMs }
    await withAnySignal(limits, async signal => copies?.ensure(row.id, signal))
    if (!existsSync(files.archive(row.id))) throw notFound('Archive', row.id)
    const { sealed = null, rollout, role } = findQueuedRelease(store, row.id) ?? {}
    if (sealed === null || fleet === undefined) return { ...planned, rollout, role }
    const { offered, clientEnv } = await fleet.openOffer(row.id, sealed)
    return { ...planned, offered, env: clientEnv, rollout, role }
  }

  async function run(planned: Planned): Promise<void> {
    const { row, live: run } = planned
    try {
      planned = await prepare(planned)
    } catch (error) {
      // The next start, or the next leader, queues it again.
      if (run.suspending.aborted) return run.end(row)
      const reason = error instanceof Refusal ? error.message : reasonOf(error)
      const sentence = `Cannot continue the deployment after a restart: ${reason}. Push again`
      const request = run.signal.reason instanceof StopRequest ? run.signal.reason : new StopRequest('stop', sentence)
      await runner.drop(planned, request)
      return live.forget(row.id)
    }
    await runner.run(planned)
    void (run.tail ?? Promise.resolve()).finally(() => live.forget(row.id))
  }

  return async (row: DeploymentRow): Promise<void> => {
    const planned: Planned = {
      row,
      live: await takeUp(row, 'the deployment is queued again', { clock, files, live, copies }),
      offered: { origin: 'upload' },
      env: {},
      plan: null,
      exact: null,
      repair: null,
      discardUpload: async () => {}
    }
    const entry = {
      key: row.projectId,
      id: row.id,
      run: () => run(planned),
      async drop(request: StopRequest) {
        await runner.drop(planned, request)
        live.forget(row.id)
      }
    }
    addSaying({ store, queue }, entry, line => planned.live.output.say(line))
  }
}
