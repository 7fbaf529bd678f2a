/*
 * Archive → target, all or nothing, off the event loop.
 *
 * The work is done by a thread (extract-threads.ts). This side only supervises: it passes an abort on, and if the thread
 * ends without an answer it has another one put the target back.
 */
import { existsSync } from 'node:fs'
import { lstat, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArchiveLimits } from '../archive/read.js'
import { unpackError } from '../base/packed-error.js'
import { isInside } from '../base/paths.js'
import { Refusal } from '../base/refusal.js'
import { codeOf, messageOf } from '../base/system-error.js'
import type { Rights } from '../proc/identity.js'
import { summarizeManifest } from '../target/manifest.js'
import { stagingName } from '../target/staging.js'
import { describeJournal, listJournals, type Recovery } from '../target/undo.js'
import type { Executors } from './executors.js'
import type { Executor } from './extract-threads.js'
import type { Extracted, ExtractionJob } from './extraction.js'

/** The part of the data directory that extraction needs. */
export interface ExtractionHome {
  /** Absolute; holds `<id>.undo` until it is recorded how an extraction ended, and `<id>.manifest` from then on. */
  deployments: string
}

/**
 * Records that the files of a deployment are in place, found by its journal after its process or thread had ended. The
 * journal is removed when this resolves; when it throws, the journal stays and all is tried again later.
 */
export type RecordComplete = (deployId: string) => Promise<unknown>

export interface ExtractOptions {
  archivePath: string
  /** The project's deployPath; made when it is missing. */
  target: string
  /** Where it leads, as it is held (target-locks.ts): if it has come to lead elsewhere, that is refused. */
  real?: string | undefined
  /** Whether a deployment works on its target now: its journal is left alone. */
  isAtWork?: (deployId: string) => boolean
  /** Whose rights all work below the target has; absent or null: those of svc. */
  rights?: Rights | null | undefined
  /** The project's own, for all that is made below the target; absent or null: that of the rights, or of svc. */
  umask?: number | null | undefined
  deployId: string
  home: ExtractionHome
  limits: ArchiveLimits
  /** The setting `durable_targets`; absent: true. */
  isDurable?: boolean
  signal: AbortSignal
  /** Of an earlier extraction into the same target; absent: nothing is to be recorded. */
  onEarlierComplete?: RecordComplete
}

const maxEntries = 200_000 // decisions §4
const megabyte = 1024 * 1024

/** What an archive may hold, as the settings are now. */
export function extractionLimits(settings: { number(key: 'max_extracted_size'): number }): ArchiveLimits {
  return { maxExtractedBytes: settings.number('max_extracted_size') * megabyte, maxEntries }
}

/**
 * Extracts an archive into a target. When it resolves, everything is in place, and the journal says so until the caller
 * has recorded it and calls `endJournal`; when it rejects, the target is what it was. Refuses what archive/read.ts, names.ts, links.ts, entry-data.ts and target/plan.ts refuse, and
 * (`unavailable`) no_space, not_permitted; an abort rejects with the signal's reason.
 */
export async function extractArchive(executors: Executors, options: ExtractOptions): Promise<Extracted> {
  const { archivePath, target, real, rights = null, umask = rights?.umask ?? null, deployId, home, limits, isDurable = true, signal } = options
  signal.throwIfAborted()
  await finishEarlier(executors, options)
  const extraction: ExtractionJob = { target, real, deployId, umask: umask ?? process.umask(), masksModes: umask !== null, limits, isDurable }
  const journalPath = join(home.deployments, `${deployId}.undo`)
  const manifestPath = join(home.deployments, `${deployId}.manifest`)
  const executor = executors.as(rights)
  const outcome = await executor.run({ kind: 'extract', extraction, archivePath, journalPath, manifestPath }, signal)
  if (outcome.kind === 'extracted') return outcome.extracted
  if (outcome.kind === 'died' && existsSync(journalPath)) {
    // What was complete before the thread ended is a deployment all the same.
    const recovery = await putBack(executor, journalPath, putBackSignal())
    if (recovery === 'complete') return summarizeManifest(manifestPath)
  }
  if (signal.aborted) throw signal.reason
  if (outcome.kind === 'failed') throw explain(unpackError(outcome.error), rights)
  throw new Error('The thread that extracted the archive died')
}

/** After this long, putting back is left to the next deployment or start. */
const putBackMs = 30_000
const notPutBack = 'The target is not put back yet: its file system does not answer. The next deployment, or start, tries again'

function putBackSignal(): AbortSignal {
  const controller = new AbortController()
  setTimeout(() => controller.abort(new Error(notPutBack)), putBackMs).unref()
  return controller.signal
}

async function putBack(executor: Executor, journalPath: string, signal: AbortSignal): Promise<Recovery> {
  const outcome = await executor.run({ kind: 'recover', journalPath }, signal)
  if (outcome.kind === 'recovered') return outcome.recovery
  if (outcome.kind === 'failed') throw unpackError(outcome.error)
  throw new Error(notPutBack)
}

/** An earlier extraction into the same target, or within or above it, that could not be put back at the time must be first. */
async function finishEarlier(executors: Executors, options: ExtractOptions): Promise<void> {
  const { home, target, signal, isAtWork, onEarlierComplete = async () => {} } = options
  const journals = listJournals(home.deployments).filter(({ deployId }) => !isAtWork?.(deployId))
  if (journals.length === 0) return
  const real = options.real ?? await realpath(target).catch(() => target)
  for (const { deployId, path } of journals) {
    const journal = describeJournal(path)
    if (journal === null || journal.target === null) continue
    if (!isInside(journal.target, real) && !isInside(real, journal.target)) continue
    const executor = await executors.ofJournal(journal.helper)
    if (executor.isStuck(deployId)) {
      throw new Refusal('unavailable', 'target_stuck',
        `Nothing was changed: an earlier extraction (${deployId}) still waits for the file system of the target. ` +
        'Check the file system, and try again when it answers')
    }
    if ((await putBack(executor, path, signal)) === 'complete') {
      await onEarlierComplete(deployId)
      await removeJournal(home, deployId)
    }
    signal.throwIfAborted()
  }
}

/**
 * Removes the journal of an extraction that is complete, and recorded as such. It stays if the staging directory is still
 * there, since the next start, or deployment, then removes that by it.
 */
export async function endJournal(home: ExtractionHome, { deployId, target }: { deployId: string; target: string }): Promise<void> {
  const staging = join(target, stagingName(deployId))
  const isLeft = await lstat(staging).then(() => true, (error: NodeJS.ErrnoException) => !isGone.has(error.code ?? ''))
  if (!isLeft) await removeJournal(home, deployId)
}

const isGone = new Set(['ENOENT', 'ENOTDIR'])

async function removeJournal({ deployments }: ExtractionHome, deployId: string): Promise<void> {
  await rm(join(deployments, `${deployId}.undo`), { force: true })
}

const sentences: Record<string, [code: string, sentence: string]> = {
  ENOSPC: ['no_space', 'there is no space left on the file system of the target'],
  EDQUOT: ['no_space', 'the disk quota is used up on the file system of the target'],
  EROFS: ['not_permitted', 'the file system of the target is read-only'],
  EACCES: ['not_permitted', 'svc may not write there'],
  EPERM: ['not_permitted', 'svc may not write there']
}

/** What the disk said, where the operator can cure it. */
function explain(error: Error, rights: Rights | null): Error {
  const known = sentences[codeOf(error)]
  if (error instanceof Refusal || known === undefined) return error
  const [refused, reason] = known
  const why = rights === null ? reason : reason.replace('svc', `the user "${rights.identity.name}"`)
  return new Refusal('unavailable', refused, `The target was left as it was: ${why} (${messageOf(error)})`, { cause: error })
}

export interface RecoveryOptions {
  home: ExtractionHome
  onComplete?: RecordComplete
  /** It could not be put back yet. */
  onProblem?: (deployId: string, error: unknown) => void
  /** Its target is not there. Returns whether to try again at the next start; otherwise its journal is removed. */
  onAbsent?: (deployId: string) => boolean
  /** It never will be: the staging directory is gone, or is not the one of that deployment. */
  onLost?: (deployId: string) => void
}

/**
 * Ends what a crash cut short, before anything else is done at start: targets become what they were, or it is recorded
 * that they are complete. Returns the ids of the deployments put back. One that cannot be (its disk is missing) is
 * reported, stays, and is tried again later.
 */
export async function recoverTargets(executors: Executors, options: RecoveryOptions): Promise<string[]> {
  const { home, onComplete = async () => {}, onProblem = () => {}, onAbsent = () => false, onLost = () => {} } = options
  const ids: string[] = []
  for (const { deployId, path } of listJournals(home.deployments)) {
    try {
      const executor = await executors.ofJournal(describeJournal(path)?.helper ?? null)
      const recovery = await putBack(executor, path, putBackSignal())
      if (recovery === 'put back') ids.push(deployId)
      if (recovery === 'lost') onLost(deployId)
      if (recovery === 'complete') await onComplete(deployId)
      if (recovery === 'complete' || (recovery === 'absent' && !onAbsent(deployId))) await removeJournal(home, deployId)
    } catch (error) {
      onProblem(deployId, error)
    }
  }
  return ids
}
