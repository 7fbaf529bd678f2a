import type { DeploymentRow, DeploymentStep } from '../model/deployment.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { Live, LiveRun } from './output/live.js'
import { openOutput } from './output/output.js'
import type { Queue } from './queue.js'
import { offeredBySource } from './rollback.js'
import type { Runner } from './run.js'

/** Dependencies of `createResume`. */
export interface ResumeNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'log' | 'copies'> {
  files: DeployFiles
  live: Live
  queue: Queue
  runner: Pick<Runner, 'resume'>
}

/**
 * Begins the run of a deployment that an earlier process, or another hub, had accepted. Its output says so, and what
 * happens now.
 */
export async function takeUp(
  row: DeploymentRow,
  what: string,
  { clock, files, live, copies }: Pick<ResumeNeeds, 'clock' | 'files' | 'live' | 'copies'>
): Promise<LiveRun> {
  const output = await openOutput({
    path: files.output(row.id),
    clock,
    onWritten: () => live.find(row.id)?.wake()
  })
  output.tolerateFailures()
  const run = live.begin({ deployId: row.id, projectId: row.projectId, output })
  output.say(`→ ${copies === undefined ? 'the server was restarted' : 'this hub leads now'}; ${what}`)
  return run
}

/**
 * Creates the function that takes up a deployment which was held when the server stopped, or which has failed because it
 * ran then, and has a script for that (`failure`: why it failed, and what became of its target). It is the first of its
 * project in the queue. The variables that the client sent are not stored, so a script that runs again does not get
 * them.
 */
export function createResume({ clock, files, live, queue, runner, log, copies }: ResumeNeeds) {
  return async (row: DeploymentRow, failure?: { sentence: string; note: string }): Promise<void> => {
    const what = failure === undefined ? 'the deployment continues' : `the deployment has failed${failure.note}`
    const run = await takeUp(row, what, { clock, files, live, copies })
    const planned = {
      row: { ...row, steps: row.steps.flatMap(step => endedStep(step, clock.now())) },
      live: run,
      offered: offeredBySource(row),
      env: {},
      plan: null,
      exact: null,
      // Its files are in place; only its scripts may still run.
      repair: row.triggerSource === 'repair' ? { paths: [], runScripts: row.scripts.length > 0 } : null,
      discardUpload: async () => {},
      ...(failure && { failure: failure.sentence }),
      resumedFrom: row
    }
    queue.add({
      key: row.projectId,
      id: row.id,
      async run() {
        await runner.resume(planned).catch(error => log(`Cannot continue deployment ${row.id}`, error))
        const tail = run.tail ?? Promise.resolve()
        void tail.finally(() => live.forget(row.id))
      },
      // It is the first of its queue, so it cannot be taken back.
      drop: async () => {}
    })
  }
}

/** The steps that begin again. */
const repeated: ReadonlySet<DeploymentStep['name']> = new Set(['check', 'confirm', 'revert', 'rollout', 'cleanup'])

/** Ends a step that the stop of the server interrupted, or drops it if it begins again. */
function endedStep(step: DeploymentStep, nowMs: number): DeploymentStep[] {
  if (step.endedAt !== null) return [step]
  if (repeated.has(step.name)) return []
  return [{ ...step, status: 'failed', endedAt: new Date(nowMs).toISOString() }]
}
