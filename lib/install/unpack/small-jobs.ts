/*
 * Does small extractions in the thread that answers requests, and all other jobs in threads: starting a thread costs
 * several times as much as a small extraction. Files take turns with other work of the event loop, and syncs are awaited,
 * so requests are answered in the meantime. It is the same extraction, with the same guarantees.
 */
import { createGate, createSlices } from '../../base/async.js'
import { Refusal } from '../../base/errors.js'
import type { Executor, Job, Outcome } from './extract-threads.js'
import { doJob } from './job.js'
import { defaultSmall, isSmallExtraction, isSmallMark, type SmallLimits } from './small.js'

/** The same number as threads: they use the same disk. */
const maxAtOnce = 2

/**
 * Maximum number of checks of a job. There is one for each entry, and one for each piece of a file that is read: more
 * than a small extraction needs, and a second of reading.
 */
const maxChecks = 4_096

/** Returns the check of a job: the owner of the target may make a file large after it was found to be small. */
function checkOf(signal: AbortSignal): () => void {
  let left = maxChecks
  return () => {
    signal.throwIfAborted()
    if (--left < 0) throw grown()
  }
}

function grown(): Refusal {
  const sentence = 'A file of the target grew while the deployment read it. Deploy again when nothing else writes there'
  return new Refusal('conflict', 'changed_meanwhile', sentence)
}

/** Creates an executor that leaves jobs that are not small to `threads`. */
export function createSmallJobs(threads: Executor, limits: SmallLimits = defaultSmall): Executor {
  const gate = createGate({ places: maxAtOnce })
  const slices = createSlices()

  async function runHere(job: Job, signal: AbortSignal): Promise<Outcome> {
    const leave = await gate.enter(signal)
    try {
      return await doJob(job, { check: checkOf(signal), pause: () => slices.turn() })
    } catch (error) {
      return { kind: 'failed', error }
    } finally {
      leave()
    }
  }

  return {
    async run(job, signal) {
      if (job.kind === 'extract' && (await isSmallExtraction(job, limits))) return runHere(job, signal)
      if (job.kind === 'mark' && (await isSmallMark(job, limits))) return runHere(job, signal)
      return threads.run(job, signal)
    },
    isStuck: threads.isStuck
  }
}
