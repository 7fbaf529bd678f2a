/*
 * Does small extractions in the thread that answers requests, and all other jobs in threads: starting a thread costs
 * several times as much as a small extraction. Files take turns with other work of the event loop, and syncs are awaited,
 * so requests are answered in the meantime. It is the same extraction, with the same guarantees.
 */
import { createGate } from '../../base/gate.js'
import { createSlices } from '../../base/slices.js'
import type { Executor, Job, Outcome } from './extract-threads.js'
import { doJob } from './job.js'
import { defaultSmall, isSmallExtraction, type SmallLimits } from './small.js'

/** The same number as threads: they use the same disk. */
const maxAtOnce = 2

/** Creates an executor that leaves jobs that are not small to `threads`. */
export function createSmallJobs(threads: Executor, limits: SmallLimits = defaultSmall): Executor {
  const gate = createGate({ places: maxAtOnce })
  const slices = createSlices()

  async function runHere(job: Job, signal: AbortSignal): Promise<Outcome> {
    const leave = await gate.enter(signal)
    try {
      return await doJob(job, { check: () => signal.throwIfAborted(), pause: () => slices.turn() })
    } catch (error) {
      return { kind: 'failed', error }
    } finally {
      leave()
    }
  }

  return {
    async run(job, signal) {
      if (job.kind === 'extract' && (await isSmallExtraction(job, limits))) return runHere(job, signal)
      return threads.run(job, signal)
    },
    isStuck: threads.isStuck
  }
}
