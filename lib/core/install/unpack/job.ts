/*
 * Does a job on a target: in a thread (extract-worker.ts), or in the thread that answers requests if it is small
 * (executors.ts). Modules are loaded when a job needs them, because loading is most of the cost of a new thread.
 */
import { readFileSync } from 'node:fs'
import type { Displaced } from '../before-images.js'
import type { BeginSecond, Pause } from './second-stage.js'
import type { Answer, Job } from './extract-threads.js'

/** How a job is done. */
export interface JobTools {
  /** Called now and then. Throws if the job must be abandoned. */
  check(): void
  /** Called before each file of an extraction; a promise means that other work of the thread comes first. */
  pause?: Pause
  /** Starts a second thread for an extraction with many files; absent: none is used. */
  secondOf?(archivePath: string): BeginSecond
}

/** Does a job. An extraction that fails has put the target back. */
export async function doJob(job: Job, { check, pause, secondOf }: JobTools): Promise<Answer> {
  const { disk } = await import('../disk.js')
  switch (job.kind) {
    case 'extract': {
      const { filesAt, runExtraction } = await import('./extraction.js')
      const beginSecond = secondOf?.(job.archivePath)
      const files = { ...filesAt(disk, job), ...(beginSecond === undefined ? {} : { beginSecond }) }
      const tools = { disk, check, pause, tellsTimes: true }
      return { kind: 'extracted', extracted: await runExtraction(job.extraction, files, tools) }
    }
    case 'recover':
      return recoverTarget(job)
    case 'discard': {
      const { discardLeft } = await import('./extraction.js')
      await discardLeft(disk, job.left)
      return { kind: 'discarded' }
    }
    case 'compare': {
      const { compareTarget } = await import('../compare.js')
      return { kind: 'compared', compared: await compareTarget(job.compare, { disk, check }) }
    }
    case 'file': {
      const { workOnFile } = await import('../target-file.js')
      return { kind: 'found', found: workOnFile(job.file, { disk, check }) }
    }
    case 'verify': {
      const { verifyTarget } = await import('../verify.js')
      return { kind: 'verified', findings: verifyTarget(job.verify, { disk, check }) }
    }
    case 'mark': {
      const { markTarget } = await import('../look-again.js')
      return { kind: 'marked', marks: await markTarget(job.mark, { disk, check }) }
    }
    case 'look': {
      const [{ lookAgain }, { beforeAt }] = await Promise.all([
        import('../look-again.js'),
        import('../before-images.js')
      ])
      return { kind: 'looked', looked: await lookAgain(job.look, beforeAt(disk, job.imagesPath), { disk, check }) }
    }
  }
}

async function recoverTarget({ journalPath, placed }: Extract<Job, { kind: 'recover' }>): Promise<Answer> {
  const [{ disk }, { journalAt }, { manifestOf, placedFiles, scriptedOf, settleManifest }, { recover }] =
    await Promise.all([import('../disk.js'), import('../journal.js'), import('../manifest.js'), import('../undo.js')])
  const textOf = (path: string | null): string => readFileSync(path ?? '/dev/null', 'utf8')
  let displaced: Displaced | null = null
  const recovery = recover(disk, journalAt(disk, journalPath), {
    placed,
    files: () => placedFiles(textOf(manifestOf(journalPath)), textOf(scriptedOf(journalPath))),
    onDisplaced: found => (displaced = found),
    settle: found => settleManifest(disk, journalPath, found)
  })
  return { kind: 'recovered', recovery, displaced }
}
