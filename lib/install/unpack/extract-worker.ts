/* A thread that does one job after the other. extract-threads.ts starts it. It keeps no state between jobs. */
import { readFileSync } from 'node:fs'
import { serveThread } from '../../base/worker-thread.js'
import { compareTarget } from '../compare.js'
import { disk } from '../disk.js'
import { journalAt } from '../journal-file.js'
import type { Displaced } from '../displaced.js'
import { manifestOf, parseManifest, settleManifest } from '../manifest.js'
import { workOnFile } from '../target-file.js'
import { recover } from '../undo.js'
import { verifyTarget } from '../verify.js'
import type { Answer, Task } from './extract-threads.js'
import { filesAt } from './extraction-files.js'
import { runExtraction } from './extraction.js'
import { createSecondThread } from './second-stage.js'

const second = createSecondThread()

async function work({ job, stop }: Task): Promise<Answer> {
  if (job.kind === 'recover') {
    const { journalPath, placed } = job
    let displaced: Displaced | null = null
    const recovery = recover(disk, journalAt(disk, journalPath), {
      placed,
      files: () => parseManifest(readFileSync(manifestOf(journalPath) ?? '/dev/null', 'utf8')),
      onDisplaced: found => (displaced = found),
      settle: found => settleManifest(disk, journalPath, found)
    })
    return { kind: 'recovered', recovery, displaced }
  }
  const check = (): void => {
    if (Atomics.load(stop, 0) !== 0) throw new Error('The work was aborted')
  }
  if (job.kind === 'file') return { kind: 'found', found: workOnFile(job.file, disk) }
  if (job.kind === 'compare') return { kind: 'compared', compared: await compareTarget(job.compare, { disk, check }) }
  if (job.kind === 'verify') return { kind: 'verified', findings: verifyTarget(job.verify, { disk, check }) }
  const files = { ...filesAt(disk, job), beginSecond: second.of(job.archivePath) }
  return { kind: 'extracted', extracted: await runExtraction(job.extraction, files, { disk, check }) }
}

serveThread(work, answer => (answer.kind === 'extracted' ? answer.extracted.changes.map(({ buffer }) => buffer) : []))
