/* A thread that does one job after the other. extract-threads.ts starts it. It keeps no state between jobs. */
import { serveThread } from '../../../base/workers.js'
import type { Answer, Task } from './extract-threads.js'
import { doJob } from './job.js'
import { createSecondThread } from './second-stage.js'

const second = createSecondThread()

function work({ job, stop }: Task): Promise<Answer> {
  const check = (): void => {
    if (Atomics.load(stop, 0) !== 0) throw new Error('The work was aborted')
  }
  return doJob(job, { check, secondOf: second.of })
}

serveThread(work, answer => (answer.kind === 'extracted' ? answer.extracted.changes.map(({ buffer }) => buffer) : []))
