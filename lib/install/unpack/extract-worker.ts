/* A thread that does one job after the other. extract-threads.ts starts it. It keeps no state between jobs. */
import { serveThread } from '../../base/worker-thread.js'
import { compareTarget } from '../compare.js'
import { disk } from '../disk.js'
import { journalAt } from '../journal-file.js'
import { settleManifest } from '../manifest.js'
import { recover, type Recovery } from '../undo.js'
import type { Answer, Task } from './extract-threads.js'
import { filesAt } from './extraction-files.js'
import { runExtraction } from './extraction.js'
import { createSecondThread } from './second-stage.js'

const second = createSecondThread()

async function work({ job, stop }: Task): Promise<Answer> {
  if (job.kind === 'recover') {
    const settle = (recovery: Recovery): void => settleManifest(disk, job.journalPath, recovery)
    return { kind: 'recovered', recovery: recover(disk, journalAt(disk, job.journalPath), { settle }) }
  }
  const check = (): void => {
    if (Atomics.load(stop, 0) !== 0) throw new Error('The work was aborted')
  }
  if (job.kind === 'compare') return { kind: 'compared', compared: await compareTarget(job.compare, { disk, check }) }
  const files = { ...filesAt(disk, job), beginSecond: second.of(job.archivePath) }
  return { kind: 'extracted', extracted: await runExtraction(job.extraction, files, { disk, check }) }
}

serveThread(work, answer => (answer.kind === 'extracted' ? answer.extracted.changes.map(({ buffer }) => buffer) : []))
