/* A thread that does one job after the other; extract-threads.ts starts it. Nothing stays from job to job. */
import { parentPort, type MessagePort } from 'node:worker_threads'
import { packError } from '../base/packed-error.js'
import { disk } from '../target/disk.js'
import { journalAt } from '../target/journal-file.js'
import { settleManifest } from '../target/manifest.js'
import { recover, type Recovery } from '../target/undo.js'
import type { Answer, Task } from './extract-threads.js'
import { filesAt } from './extraction-files.js'
import { runExtraction } from './extraction.js'

const port = parentPort as MessagePort

async function work({ job, stop }: Task): Promise<Answer> {
  const check = (): void => {
    if (Atomics.load(stop, 0) !== 0) throw new Error('The extraction was given up')
  }
  try {
    if (job.kind === 'recover') {
      const settle = (recovery: Recovery): void => settleManifest(disk, job.journalPath, recovery)
      return { kind: 'recovered', recovery: recover(disk, journalAt(disk, job.journalPath), undefined, settle) }
    }
    return { kind: 'extracted', extracted: await runExtraction(job.extraction, filesAt(disk, job), disk, check) }
  } catch (error) {
    return { kind: 'failed', error: packError(error) }
  }
}

port.on('message', async (task: Task) => {
  const answer = await work(task)
  port.postMessage(answer, answer.kind === 'extracted' ? answer.extracted.changes.map(({ buffer }) => buffer) : [])
})
