/* A helper process that does one job on the target of a project with its own user. executors.ts starts it. */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { firstDescriptor } from '../../proc/environment.js'
import { serveHelper } from '../../proc/helper-process.js'
import { compareTarget, type CompareJob } from '../compare.js'
import { disk } from '../disk.js'
import { type Displaced, openedBefore } from '../before-images.js'
import { ensureTarget, type TargetRules } from '../guard.js'
import { openedJournal } from '../journal.js'
import { lookAgain, type LookJob, type MarkJob, markTarget } from '../look-again.js'
import { placedFiles } from '../manifest.js'
import { runSync } from '../sync-program.js'
import { workOnFile, type FileJob } from '../target-file.js'
import { type PlacedDecision, recover } from '../undo.js'
import { verifyTarget, type VerifyJob } from '../verify.js'
import type { Answer } from './extract-threads.js'
import { type ExtractionJob, openedFiles, runExtraction } from './extraction.js'

export type HelperJob =
  /** Extracts an archive, which is an index if it has packs. */
  | { kind: 'extract'; extraction: ExtractionJob; packs: number }
  | { kind: 'compare'; compare: CompareJob }
  | { kind: 'file'; file: FileJob }
  | { kind: 'verify'; verify: VerifyJob }
  | { kind: 'mark'; mark: MarkJob }
  /** Looks again. The descriptor is that of the copies. */
  | { kind: 'look'; look: LookJob }
  /** Recovers a journal. The second descriptor is the manifest, the third what scripts changed. */
  | { kind: 'recover'; deployId: string; placed: PlacedDecision }
  /** Creates the target like ensureTarget. */
  | { kind: 'make'; target: string; rules: TargetRules }
  /** Writes the list of changes for a script to a new file. */
  | { kind: 'list'; path: string; changes: Uint8Array[] }

/** Maximum size of the list of changes in an answer. */
const maxChangesBytes = 32 * 1024 * 1024

serveHelper(async (job: HelperJob): Promise<Answer | undefined> => {
  switch (job.kind) {
    case 'recover': {
      let displaced: Displaced | null = null
      const recovery = recover(disk, openedJournal(disk, firstDescriptor, job.deployId), {
        placed: job.placed,
        files: () => placedFiles(readFileSync(firstDescriptor + 1, 'utf8'), readFileSync(firstDescriptor + 2, 'utf8')),
        onDisplaced: found => (displaced = found)
      })
      return { kind: 'recovered', recovery, displaced }
    }
    case 'make':
      return void (await ensureTarget(job.target, job.rules))
    case 'compare':
      return { kind: 'compared', compared: await compareTarget(job.compare, { disk }) }
    case 'file':
      return { kind: 'found', found: workOnFile(job.file, { disk }) }
    case 'verify':
      return { kind: 'verified', findings: verifyTarget(job.verify, { disk }) }
    case 'mark':
      return { kind: 'marked', marks: await markTarget(job.mark, { disk }) }
    case 'look':
      return { kind: 'looked', looked: await lookAgain(job.look, openedBefore(disk, firstDescriptor), { disk }) }
    case 'list':
      return void (await writeFile(job.path, job.changes, { mode: 0o600, flag: 'wx' }))
    case 'extract': {
      const files = openedFiles(disk, job.extraction.deployId, job.packs)
      // Loaded before the rights change: the user may not be allowed to read the module.
      const tools = { disk, syncFileSystem: runSync }
      const extracted = await runExtraction(job.extraction, files, tools)
      const length = extracted.changes.reduce((sum, piece) => sum + piece.length, 0)
      // svc then reads them in the manifest: an answer has a limit.
      return { kind: 'extracted', extracted: length > maxChangesBytes ? { ...extracted, changes: [] } : extracted }
    }
  }
})
