/* A helper process that does one job to the target of a project with a user of its own; extract-helpers.ts starts it. */
import { writeFile } from 'node:fs/promises'
import { firstDescriptor } from '../proc/helper.js'
import { serveHelper } from '../proc/helper-process.js'
import { disk } from '../target/disk.js'
import { ensureTarget, type TargetRules } from '../target/guard.js'
import { openedJournal } from '../target/journal-file.js'
import { recover } from '../target/undo.js'
import type { Answer } from './extract-threads.js'
import { openedFiles } from './extraction-files.js'
import { runExtraction, type ExtractionJob } from './extraction.js'

export type HelperJob =
  | { kind: 'extract'; extraction: ExtractionJob }
  | { kind: 'recover'; deployId: string }
  /** Makes the target as ensureTarget does. */
  | { kind: 'make'; target: string; rules: TargetRules }
  /** Writes the list of changes for a script to a new file. */
  | { kind: 'list'; path: string; changes: Uint8Array[] }

serveHelper(async (job: HelperJob): Promise<Answer | string | undefined> => {
  switch (job.kind) {
    case 'recover': return { kind: 'recovered', recovery: recover(disk, openedJournal(disk, firstDescriptor, job.deployId)) }
    case 'make': return ensureTarget(job.target, job.rules)
    case 'list': return void (await writeFile(job.path, job.changes, { mode: 0o600, flag: 'wx' }))
    case 'extract': {
      const files = openedFiles(disk, job.extraction.deployId)
      return { kind: 'extracted', extracted: await runExtraction(job.extraction, files, disk, () => {}) }
    }
  }
})
