/*
 * Extraction with the rights of a project's user, in helper processes instead of threads (proc/helper.ts).
 *
 * svc opens archive, journal and manifest, because the user has no right to the data directory; the process does all
 * that is done below the target. It cannot be asked to stop: an abort kills it, and another one puts the target back.
 * The journal names the process. If svc is killed, the process may outlive it; the next start ends it before it
 * recovers what the journal says.
 */
import { closeSync, existsSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGate } from '../base/gate.js'
import { packError } from '../base/packed-error.js'
import { HelperStuck, runHelper } from '../proc/helper.js'
import type { Rights } from '../proc/identity.js'
import { disk, syncDirectory } from '../target/disk.js'
import type { TargetRules } from '../target/guard.js'
import { deployIdOf, formatHelper, type JournalHelper } from '../target/journal-file.js'
import { nameManifest, settleManifest, unnamedManifest } from '../target/manifest.js'
import type { HelperJob } from './extract-helper.js'
import type { Answer, Executor, Job, Outcome } from './extract-threads.js'

/** As many as threads: each needs as much memory, and the disk is the same. */
const maxProcesses = 2
const module = new URL('./extract-helper.js', import.meta.url)

export interface ExtractHelpers {
  /** Carries jobs out with these rights. */
  as(rights: Rights): Executor
  /** As `ensureTarget` of target/guard.ts, and refuses what that refuses. */
  makeTarget(rights: Rights, target: string, rules: TargetRules): Promise<string>
  /** Writes the list of changes for a script to a new file of the user's. */
  writeChanges(rights: Rights, path: string, changes: Uint8Array[]): Promise<void>
}

export function createExtractHelpers(): ExtractHelpers {
  const gate = createGate({ places: maxProcesses })
  const stuck = new Set<string>()

  async function attempt(job: Job, rights: Rights, signal: AbortSignal): Promise<Outcome> {
    const deployId = deployIdOf(job.journalPath)
    try {
      return await (job.kind === 'extract' ? extract(job, rights, signal) : recoverAs(job.journalPath, rights, signal))
    } catch (error) {
      if (error instanceof HelperStuck) {
        stuck.add(deployId)
        void error.gone.then(() => stuck.delete(deployId))
        return { kind: 'stuck' }
      }
      return signal.aborted ? { kind: 'died' } : { kind: 'failed', error: packError(error) }
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
    makeTarget: (rights, target, rules) => runHelper<HelperJob, string>({ module, rights, job: { kind: 'make', target, rules } }),
    writeChanges: (rights, path, changes) => runHelper<HelperJob, void>({ module, rights, job: { kind: 'list', path, changes } })
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
    const onStart = (pid: number): void => {
      writeSync(journal, formatHelper({ user: rights.identity.name, pid, startedAt: startOf(pid) ?? '0' }))
      fdatasyncSync(journal)
      syncDirectory(disk, dirname(journalPath))
    }
    const call = { module, rights, job: { kind: 'extract', extraction }, descriptors: [archive, journal, manifest], signal, onStart } as const
    const answer = await runHelper<HelperJob, Answer>(call)
    nameManifest(disk, manifestPath)
    return answer
  } finally {
    endJournal(opened[1], journalPath)
    // While there is a journal, its recovery decides about the manifest.
    if (!existsSync(journalPath)) rmSync(unnamed, { force: true })
    for (const fd of opened) closeSync(fd)
  }
}

async function recoverAs(journalPath: string, rights: Rights, signal: AbortSignal): Promise<Answer> {
  const journal = openSync(journalPath, 'a+')
  try {
    const job: HelperJob = { kind: 'recover', deployId: deployIdOf(journalPath) }
    const answer = await runHelper<HelperJob, Answer>({ module, rights, job, descriptors: [journal], signal })
    if (answer.kind === 'recovered') settleManifest(disk, journalPath, answer.recovery)
    return answer
  } finally {
    endJournal(journal, journalPath)
    closeSync(journal)
  }
}

/** A journal that its process has emptied is over. So is one whose process has written nothing: it has made nothing. */
function endJournal(fd: number | undefined, path: string): void {
  if (fd !== undefined && !readFileSync(path, 'utf8').includes('\ntarget ')) rmSync(path)
}

/**
 * Ends the helper process of an earlier svc, if it still runs. Resolves when it is gone; throws if it does not go: a call
 * to a file system that does not return holds it.
 */
export async function endHelper({ pid, startedAt }: JournalHelper): Promise<void> {
  for (let tries = 0; startOf(pid) === startedAt; tries++) {
    if (tries === maxEndTries) throw new Error(`The process ${pid} of an earlier extraction does not end`)
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      return
    }
    await sleep(endPollMs)
  }
}

const endPollMs = 20
const maxEndTries = 500

/** When a process started, in clock ticks since boot; null: there is none, or it has ended. proc(5) */
function startOf(pid: number): string | null {
  try {
    // `pid (name) state …`; the name may hold anything. The start is field 22.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null)
  } catch {
    return null
  }
}
