/*
 * Extraction with the rights of a project's user, in helper processes instead of threads (proc/helper.ts).
 *
 * svc opens archive, journal and manifest, because the user has no permission to access the data directory. The process
 * does all the work below the target. It cannot be asked to stop: an abort kills it, and another process puts the
 * target back. The journal names the process. If svc is killed, the process may outlive it; the next start ends the
 * process before it recovers the extraction of the journal.
 */
import { closeSync, existsSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { createGate } from '../../base/gate.js'
import { HelperStuck, runHelper } from '../../proc/helper.js'
import type { Rights } from '../../proc/identity.js'
import { knownProcess } from '../../proc/processes.js'
import { beforePathOf, removeBeforeImages } from '../before-images.js'
import { disk, syncDirectory } from '../disk.js'
import type { TargetRules } from '../guard.js'
import { deployIdOf, formatHelper } from '../journal-file.js'
import { manifestOf, nameManifest, settleManifest, unnamedManifest } from '../manifest.js'
import type { HelperJob } from './extract-helper.js'
import type { Answer, Executor, Job, Outcome } from './extract-threads.js'

/** The same number as threads: each process needs as much memory, and uses the same disk. */
const maxProcesses = 2
const module = new URL('./extract-helper.js', import.meta.url)

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
      if (!('journalPath' in job)) return await runHelper<HelperJob, Answer>({ module, rights, job, signal })
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
    makeTarget: (rights, target, rules) =>
      runHelper<HelperJob, string>({ module, rights, job: { kind: 'make', target, rules } }),
    writeChanges: (rights, path, changes) =>
      runHelper<HelperJob, void>({ module, rights, job: { kind: 'list', path, changes } })
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
    const onStart = (pid: number): void => {
      writeSync(
        journal,
        formatHelper({ user: rights.identity.name, pid, startedAt: knownProcess(pid)?.startedAt ?? '0' })
      )
      fdatasyncSync(journal)
      syncDirectory(disk, dirname(journalPath))
    }
    const call = {
      module,
      rights,
      job: { kind: 'extract', extraction },
      descriptors: [archive, journal, manifest, before],
      signal,
      onStart
    } as const
    const answer = await runHelper<HelperJob, Answer>(call)
    nameManifest(disk, manifestPath)
    if (answer.kind === 'extracted' && answer.extracted.beforeBytes === 0) removeBeforeImages(disk, journalPath)
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

async function recoverAs(
  { journalPath, placed }: Extract<Job, { kind: 'recover' }>,
  rights: Rights,
  signal: AbortSignal
): Promise<Answer> {
  const journal = openSync(journalPath, 'a+')
  const manifest = openSync(manifestOf(journalPath) ?? '/dev/null', 'r')
  try {
    const job: HelperJob = { kind: 'recover', deployId: deployIdOf(journalPath), placed }
    const descriptors = [journal, manifest]
    const answer = await runHelper<HelperJob, Answer>({ module, rights, job, descriptors, signal })
    if (answer.kind === 'recovered') settleManifest(disk, journalPath, answer.recovery)
    return answer
  } finally {
    endJournal(journal, journalPath)
    closeSync(journal)
    closeSync(manifest)
  }
}

/**
 * Removes the journal if its process has emptied it, which means that the extraction has finished. Also removes it if
 * the process has written nothing: then it has created nothing.
 */
function endJournal(fd: number | undefined, path: string): void {
  if (fd !== undefined && !readFileSync(path, 'utf8').includes('\ntarget ')) rmSync(path)
}
