/*
 * Extraction with the rights of a project's user, in helper processes instead of threads (proc/helper.ts).
 *
 * svc opens archive, journal and manifest, because the user has no permission to access the data directory. The process
 * does all the work below the target. It cannot be asked to stop: an abort kills it, and another process puts the
 * target back. `<id>.helper` names the process (undo.ts). If svc is killed, the process may outlive it; the next start ends the
 * process before it recovers the extraction of the journal.
 */
import { closeSync, existsSync, fstatSync, openSync, rmSync, writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createGate } from '../../base/async.js'
import { HelperStuck, runHelper } from '../../proc/helper.js'
import type { Rights } from '../../proc/identity.js'
import { bootId, type FoundProcess } from '../../proc/stop.js'
import { beforePathOf, removeBeforeImages } from '../before-images.js'
import { disk } from '../disk.js'
import { checkDeployPath, realPlace, type TargetRules } from '../guard.js'
import { answerTo, nothing } from '../helper-answers.js'
import { deployIdOf, journalHead } from '../journal.js'
import { removeJournalFiles, writeOwner } from '../undo.js'
import {
  manifestOf,
  nameManifest,
  scriptedOf,
  settleManifest,
  summarizeManifest,
  unnamedManifest
} from '../manifest.js'
import type { HelperJob } from './extract-helper.js'
import type { Answer, Executor, Job, Outcome } from './extract-threads.js'

/** The same number as threads: each process needs as much memory, and uses the same disk. */
const maxProcesses = 2
const module = new URL('./extract-helper.js', import.meta.url)
/** The word of the command line by which a helper process is recognized. */
export const helperProgram = fileURLToPath(module)

/** Executes jobs in helper processes. */
export interface ExtractHelpers {
  /** Returns the executor for these rights. */
  as(rights: Rights): Executor
  /** Calls `ensureTarget` of install/guard.ts with these rights, and refuses what that refuses. */
  makeTarget(rights: Rights, target: string, rules: TargetRules): Promise<string>
  /** Writes the list of changes for a script to a new file that the user owns. */
  writeChanges(rights: Rights, path: string, changes: Uint8Array[]): Promise<void>
}

/** Creates an executor in helper processes. A process starts for each job. */
export function createExtractHelpers(): ExtractHelpers {
  const gate = createGate({ places: maxProcesses })
  const stuck = new Set<string>()

  function noteStuck(deployId: string, gone: Promise<void>): void {
    stuck.add(deployId)
    void gone.then(() => stuck.delete(deployId))
  }

  async function attempt(job: Job, rights: Rights, signal: AbortSignal): Promise<Outcome> {
    try {
      if (job.kind === 'look') return await look(job, rights, signal)
      if (!('journalPath' in job))
        return await runHelper<HelperJob, Answer>({ module, rights, job, read: answerTo(job), signal })
      return await (job.kind === 'extract' ? extract(job, rights, signal) : recoverAs(job, rights, signal))
    } catch (error) {
      if (error instanceof HelperStuck) {
        if ('journalPath' in job) noteStuck(deployIdOf(job.journalPath), error.gone)
        return { kind: 'stuck' }
      }
      return signal.aborted ? { kind: 'died' } : { kind: 'failed', error }
    }
  }

  return {
    as: rights => ({
      async run(job, signal) {
        const leave = await gate.enter(signal)
        try {
          return await attempt(job, rights, signal)
        } finally {
          leave()
        }
      },
      isStuck: deployId => stuck.has(deployId)
    }),
    async makeTarget(rights, target, rules) {
      const job: HelperJob = { kind: 'make', target, rules }
      await runHelper<HelperJob, void>({ module, rights, job, read: nothing })
      return checkDeployPath(target, rules)
    },
    writeChanges: (rights, path, changes) =>
      runHelper<HelperJob, void>({ module, rights, job: { kind: 'list', path, changes }, read: nothing })
  }
}

async function extract(job: Extract<Job, { kind: 'extract' }>, rights: Rights, signal: AbortSignal): Promise<Answer> {
  const { archivePath, journalPath, manifestPath, extraction } = job
  const opened: number[] = []
  const open = (path: string, flags: string): number => {
    opened.push(openSync(path, flags, 0o600))
    return opened.at(-1) as number
  }
  const unnamed = unnamedManifest(manifestPath)
  try {
    const archive = open(archivePath, 'r')
    const journal = open(journalPath, 'ax+')
    const manifest = open(unnamed, 'w')
    const before = open(beforePathOf(journalPath), 'w')
    writeSync(journal, journalHead)
    const onStart = (process: FoundProcess): void => {
      const { name: user, uid } = rights.identity
      const target = extraction.real ?? realPlace(extraction.target)
      writeOwner(disk, journalPath, { user, uid, ...process, bootId: bootId(), target })
    }
    const call = {
      module,
      rights,
      job: { kind: 'extract', extraction },
      read: answerTo(job),
      descriptors: [archive, journal, manifest, before],
      signal,
      onStart
    } as const
    const answer = await runHelper<HelperJob, Answer>(call)
    nameManifest(disk, manifestPath)
    if (answer.kind !== 'extracted') return answer
    const { extracted } = answer
    if (extracted.beforeBytes === 0) removeBeforeImages(disk, journalPath)
    if (extracted.changes.length === 0) extracted.changes = (await summarizeManifest(manifestPath)).changes
    return answer
  } finally {
    endJournal(opened[1], journalPath)
    // As long as the journal exists, its recovery decides about the manifest.
    if (!existsSync(journalPath)) {
      rmSync(unnamed, { force: true })
      if (!existsSync(manifestPath)) rmSync(beforePathOf(journalPath), { force: true })
    }
    for (const fd of opened) closeSync(fd)
  }
}

async function look(job: Extract<Job, { kind: 'look' }>, rights: Rights, signal: AbortSignal): Promise<Answer> {
  const images = openSync(job.imagesPath, 'w', 0o600)
  try {
    const helperJob: HelperJob = { kind: 'look', look: job.look }
    const call = { module, rights, job: helperJob, read: answerTo(job), descriptors: [images], signal }
    return await runHelper<HelperJob, Answer>(call)
  } finally {
    closeSync(images)
  }
}

async function recoverAs(
  { journalPath, placed }: Extract<Job, { kind: 'recover' }>,
  rights: Rights,
  signal: AbortSignal
): Promise<Answer> {
  const journal = openSync(journalPath, 'a+')
  const manifest = openSync(manifestOf(journalPath) ?? '/dev/null', 'r')
  const scripted = openSync(scriptedOf(journalPath) ?? '/dev/null', 'r')
  try {
    const job: HelperJob = { kind: 'recover', deployId: deployIdOf(journalPath), placed }
    const descriptors = [journal, manifest, scripted]
    const call = { module, rights, job, read: answerTo({ kind: 'recover', journalPath, placed }), descriptors, signal }
    const answer = await runHelper<HelperJob, Answer>(call)
    if (answer.kind === 'recovered') settleManifest(disk, journalPath, answer.recovery)
    return answer
  } finally {
    endJournal(journal, journalPath)
    closeSync(journal)
    closeSync(manifest)
    closeSync(scripted)
  }
}

/**
 * Removes the journal if its process has emptied it, which means that the extraction has finished. Also removes it if
 * the process has written nothing: then it has created nothing.
 */
function endJournal(fd: number | undefined, path: string): void {
  if (fd !== undefined && fstatSync(fd).size <= journalHead.length) removeJournalFiles(path)
}
