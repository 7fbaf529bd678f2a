/* A helper process that does one job to the target of a project with a user of its own; extract-helpers.ts starts it. */
import { firstDescriptor } from '../proc/helper.js'
import { serveHelper } from '../proc/helper-process.js'
import { disk } from '../target/disk.js'
import { openedJournal } from '../target/journal-file.js'
import { recover } from '../target/undo.js'
import type { Answer } from './extract-threads.js'
import { openedFiles } from './extraction-files.js'
import { runExtraction, type ExtractionJob } from './extraction.js'

export type HelperJob = { kind: 'extract'; extraction: ExtractionJob } | { kind: 'recover'; deployId: string }

serveHelper(async (job: HelperJob): Promise<Answer> => {
  if (job.kind === 'recover') {
    return { kind: 'recovered', recovery: recover(disk, openedJournal(disk, firstDescriptor, job.deployId)) }
  }
  const { extraction } = job
  return { kind: 'extracted', extracted: await runExtraction(extraction, openedFiles(disk, extraction.deployId), disk, () => {}) }
})
