/*
 * Extracts an archive into a target, all or nothing, off the event loop.
 *
 * A thread does the work (extract-threads.ts), unless it is small (executors.ts). This side only supervises: it passes
 * an abort on. If the thread ends without an answer, it has another thread put the target back.
 */

import { existsSync } from 'node:fs'
import { lstat, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArchiveLimits } from '../../archive/read.js'
import { freeBytes, isInside } from '../../../base/files.js'
import { codeOf, isOutOfInodes, messageOf, reasonOf, Refusal } from '../../../base/errors.js'
import type { Rights } from '../../proc/identity.js'
import { formatBytes } from '../../../base/shared/api.js'
import type { Expected } from '../expected.js'
import { beforePathOf, type Displaced } from '../before-images.js'
import { summarizeManifest } from '../manifest.js'
import type { ModePolicy } from '../guard.js'
import type { Ownership } from '../ownership.js'
import { stagingName } from '../staging.js'
import {
  describeJournal,
  listJournals,
  type OpenState,
  openStateOfJournal,
  type PlacedDecision,
  type Recovery,
  removeJournalFiles,
  removeLeftOwners
} from '../undo.js'
import type { Executors } from './executors.js'
import type { Extracted, ExtractionJob, LeftStaging } from './extraction.js'
import type { Executor, Outcome } from './extract-threads.js'

/**
 * Records that the files of a deployment are in place. Called for a deployment whose process or thread has ended, and
 * which was found by its journal. The journal is removed when this resolves. If it throws, the journal stays and
 * everything is retried later.
 */
export type RecordComplete = (deployId: string) => Promise<unknown>

/** What to extract, where, and how. */
export interface ExtractOptions {
  archivePath: string
  /** The project's deployPath. It is created if it is missing. */
  target: string
  /**
   * The real path of the target that is locked (deploy/queue.ts). If the target now leads elsewhere, that is refused.
   */
  real?: string | undefined
  /** Whether a deployment is working on its target now: its journal is then not touched. */
  isAtWork?: (deployId: string) => boolean
  /** The rights of all work below the target; absent or null: those of svc. */
  rights?: Rights | null | undefined
  /**
   * The project's own umask for everything that is created below the target; absent or null: the umask of the rights,
   * or of svc.
   */
  umask?: number | null | undefined
  /** What the policy of the project says about permissions; absent: nothing. */
  modes?: ModePolicy | undefined
  deployId: string
  home: ExtractionHome
  limits: ArchiveLimits
  /** The plan that the extraction is held to; absent: none. */
  expected?: Expected | undefined
  /** The tree that the archive must have; absent: any. */
  treeSha256?: string | undefined
  /** As in `ExtractionJob`. */
  likelyTree?: string | undefined
  /** What svc owns in the target; absent: nothing is known. */
  ownership?: Ownership | undefined
  /** Paths that the archive must not touch (core/install/guard.ts); absent: none. */
  reserved?: readonly string[] | undefined
  /** The setting `durable_targets`; default: true. */
  isDurable?: boolean
  signal: AbortSignal
  /** Whether the deployment may still be put back afterwards, until `settleExtraction`; default: false. */
  staysOpen?: boolean
  /** Whether the caller calls `removeLeft` if the result says that something is `left`; default: false. */
  mayLeave?: boolean
  /** Records an earlier extraction into the same target as complete; absent: nothing is recorded. */
  onEarlierComplete?: RecordComplete
  /** What to do with an earlier one that is placed but not settled; absent: it is reverted, and nothing is recorded. */
  open?: OpenExtractions
}

const maxEntries = 200_000 // decisions §4
const megabyte = 1024 * 1024

/** Returns the limits of an archive with the current settings. */
export function extractionLimits(settings: { number(key: 'max_extracted_size'): number }): ArchiveLimits {
  return { maxExtractedBytes: settings.number('max_extracted_size') * megabyte, maxEntries }
}

/**
 * Extracts an archive into a target. When it resolves, everything is in place. The journal says so until the caller has
 * recorded it and calls `endJournal`. When it rejects, the target is as it was before. Refuses what `read`,
 * `names` and `entry-data` of core/archive and core/install/plan.ts refuse, and (`unavailable`) no_space,
 * not_permitted. An abort rejects with the signal's reason.
 */
export async function extractArchive(executors: Executors, options: ExtractOptions): Promise<Extracted> {
  const {
    archivePath,
    target,
    real,
    rights = null,
    umask = rights?.umask ?? null,
    modes,
    deployId,
    home,
    limits,
    expected,
    treeSha256,
    likelyTree,
    ownership,
    reserved,
    isDurable = true,
    staysOpen = false,
    mayLeave = false,
    signal
  } = options
  signal.throwIfAborted()
  await finishEarlier(executors, options)
  const extraction: ExtractionJob = {
    target,
    real,
    deployId,
    umask: umask ?? process.umask(),
    masksModes: umask !== null,
    modes,
    limits,
    expected,
    treeSha256,
    likelyTree,
    ownership,
    reserved,
    isDurable,
    staysOpen,
    // Another process costs more than it saves.
    mayLeave: mayLeave && rights === null
  }
  const journalPath = journalPathOf(home, deployId)
  const manifestPath = join(home.deployments, `${deployId}.manifest`)
  const executor = executors.as(rights)
  const outcome = await executor.run({ kind: 'extract', extraction, archivePath, journalPath, manifestPath }, signal)
  if (outcome.kind === 'extracted') return outcome.extracted
  if (outcome.kind === 'died' && existsSync(journalPath)) {
    // A deployment that was complete before the thread ended is still complete.
    const { recovery } = await putBack(executor, { journalPath, placed: 'revert' }, putBackSignal())
    if (recovery === 'complete') return completed(manifestPath, journalPath)
    if (recovery === 'reverted') await removeJournal(home, deployId)
  }
  if (signal.aborted) throw signal.reason
  if (outcome.kind === 'failed') throw await explain(outcome.error, { target, rights })
  throw new Error('The thread that extracted the archive died')
}

/** Returns what is known of an extraction that was complete before its thread ended. */
async function completed(manifestPath: string, journalPath: string): Promise<Extracted> {
  const beforeBytes = await stat(beforePathOf(journalPath)).then(
    ({ size }) => size,
    () => 0
  )
  const unknown = { treeSha256: null, replaced: null, kept: null }
  return { ...(await summarizeManifest(manifestPath)), ...unknown, beforeBytes }
}

/** After this time, putting back is left to the next deployment or start. */
const putBackMs = 30_000
function putBackSignal(): AbortSignal {
  const controller = new AbortController()
  setTimeout(() => controller.abort(new Error(notPutBack)), putBackMs).unref()
  return controller.signal
}

/**
 * Finishes earlier extractions into the same target, or into one within or above it, that could not be put back at the
 * time.
 */
async function finishEarlier(executors: Executors, options: ExtractOptions): Promise<void> {
  const { home, target, signal, isAtWork, onEarlierComplete = async () => {}, open = alwaysRevert } = options
  const journals = listJournals(home.deployments).filter(({ deployId }) => !isAtWork?.(deployId))
  if (journals.length === 0) return
  const real = options.real ?? (await realpath(target).catch(() => target))
  for (const { deployId, path } of journals) {
    const journal = describeJournal(path)
    if (journal === null || journal.target === null) continue
    if (!isInside(journal.target, real) && !isInside(real, journal.target)) continue
    const executor = await executors.ofJournal(journal.helper)
    if (executor.isStuck(deployId)) {
      throw new Refusal(
        'unavailable',
        'target_stuck',
        `Nothing was changed: an earlier extraction (${deployId}) still waits for the target's file system, which ` +
          'does not respond. Check the file system, and deploy again when it responds'
      )
    }
    const { recovery } = await putBack(executor, { journalPath: path, placed: open.decide(deployId) }, signal)
    if (recovery === 'held') throw heldBy(deployId)
    if (recovery === 'complete') await onEarlierComplete(deployId)
    if (recovery === 'reverted') await open.onReverted(deployId)
    if (recovery === 'complete' || recovery === 'reverted') await removeJournal(home, deployId)
    signal.throwIfAborted()
  }
}

/**
 * Removes the journal of an extraction that is complete and recorded as complete. The journal stays if the staging
 * directory still exists: the next start or deployment then uses the journal to remove that directory.
 */
export async function endJournal(
  home: ExtractionHome,
  { deployId, target }: { deployId: string; target: string }
): Promise<void> {
  const staging = join(target, stagingName(deployId))
  const isLeft = await lstat(staging).then(
    () => true,
    (error: NodeJS.ErrnoException) => !isGone.has(error.code ?? '')
  )
  if (!isLeft) await removeJournal(home, deployId)
}

const isGone = new Set(['ENOENT', 'ENOTDIR'])

/**
 * Removes what an extraction has replaced and left. If it rejects, the journal still says so: the next deployment or start
 * removes it. Nobody else may work on the target meanwhile.
 */
export async function removeLeft(executors: Executors, home: ExtractionHome, left: LeftStaging): Promise<void> {
  const job = { kind: 'discard', journalPath: journalPathOf(home, left.deployId), left } as const
  const outcome = await executors.as(null).run(job, AbortSignal.timeout(openEndMs))
  if (outcome.kind === 'failed') throw outcome.error
  if (outcome.kind !== 'discarded') throw new Error('The file system of the target does not respond')
}

/** The errors that an operator can fix, with the codes of their refusals. */
const curable: Record<string, string> = {
  ENOSPC: 'no_space',
  EDQUOT: 'no_space',
  EROFS: 'not_permitted',
  EACCES: 'not_permitted',
  EPERM: 'not_permitted'
}

async function explain(
  error: unknown,
  { target, rights }: { target: string; rights: Rights | null }
): Promise<unknown> {
  const refused = curable[codeOf(error)]
  if (error instanceof Refusal || refused === undefined) return error
  const free = refused === 'no_space' && !isOutOfInodes(error) ? await freeBytes(target) : null
  const space = free === null ? '' : `, where ${formatBytes(free)} are free`
  const who = rights === null ? '' : ` for the user "${rights.identity.name}"`
  const why = `${reasonOf(error)}${who} in "${target}"${space}`
  return new Refusal('unavailable', refused, `The target was left as it was: ${why} (${messageOf(error)})`, {
    cause: error
  })
}

/** What a recovery needs, and calls back. */
export interface RecoveryOptions {
  home: ExtractionHome
  onComplete?: RecordComplete
  /** Called if a target could not be put back yet. */
  onProblem?: (deployId: string, error: unknown) => void
  /** Called if a target does not exist, or its path leads to another directory. Its journal stays for the next start. */
  onAbsent?: (deployId: string) => void
  /**
   * Called if a target can never be put back: the staging directory is missing, or is not the one of that deployment.
   */
  onLost?: (deployId: string) => void
  open?: OpenExtractions
}

/**
 * Finishes the extractions that a crash interrupted, before anything else is done at start: each target is put back, or
 * is recorded as complete. Returns the ids of the deployments that were put back. An extraction that cannot be finished
 * now (its disk is missing) is reported, and its journal stays for a later attempt.
 */
export async function recoverTargets(executors: Executors, options: RecoveryOptions): Promise<string[]> {
  const { home, onComplete = async () => {}, onProblem = () => {}, onAbsent = () => {}, onLost = () => {} } = options
  const { open = alwaysRevert } = options
  const ids: string[] = []
  for (const { deployId, path } of listJournals(home.deployments)) {
    try {
      const executor = await executors.ofJournal(describeJournal(path)?.helper ?? null)
      const job = { journalPath: path, placed: open.decide(deployId) }
      const { recovery } = await putBack(executor, job, putBackSignal())
      if (recovery === 'put back' || recovery === 'reverted') ids.push(deployId)
      if (recovery === 'lost') onLost(deployId)
      if (recovery === 'complete') await onComplete(deployId)
      if (recovery === 'reverted') await open.onReverted(deployId)
      if (recovery === 'absent') onAbsent(deployId)
      if (recovery === 'complete' || recovery === 'reverted') await removeJournal(home, deployId)
    } catch (error) {
      onProblem(deployId, error)
    }
  }
  removeLeftOwners(home.deployments)
  return ids
}

/*
 * Extractions that stay open: their files are in place, and the earlier ones can still be put back
 * (core/install/undo.ts). A deployment stays open while it is checked or waits for its confirmation.
 */

/** The extractions that are placed but not settled. */
export interface OpenExtractions {
  decide(deployId: string): PlacedDecision
  /** Records that an extraction was reverted. Called and retried like `RecordComplete`. */
  onReverted(deployId: string): Promise<unknown>
}

/** Reverts every open extraction, and records nothing. */
export const alwaysRevert: OpenExtractions = { decide: () => 'revert', onReverted: async () => {} }

/** The 409 for a target in which another deployment is still open. */
function heldBy(deployId: string): Refusal {
  const sentence =
    `Nothing was changed: deployment ${deployId} into the same directory still waits for its checks or its ` +
    'confirmation. Confirm or revert it first'
  return new Refusal('conflict', 'target_held', sentence)
}

/**
 * Completes an extraction that stayed open: from now on it is not put back. The journal stays until `endJournal`.
 * Returns whether it is complete; otherwise it had been put back before.
 */
export async function settleExtraction(executors: Executors, home: ExtractionHome, deployId: string): Promise<boolean> {
  const { recovery } = await endOpen(executors, { home, deployId, placed: 'settle' })
  return recovery === 'complete'
}

/**
 * Puts back what an extraction that stayed open has replaced, and keeps files that were edited since. Resolves with
 * those. The journal stays until `removeJournal`. Refuses (`unavailable`, revert_failed) if nothing can be put back.
 */
export async function revertExtraction(
  executors: Executors,
  home: ExtractionHome,
  deployId: string
): Promise<Displaced | null> {
  const { recovery, displaced } = await endOpen(executors, { home, deployId, placed: 'revert' })
  if (recovery === 'reverted') return displaced
  const why = reasonsOfFailure[recovery] ?? `the undo journal says "${recovery}"`
  throw new Refusal('unavailable', 'revert_failed', `Cannot put the earlier files back: ${why}`)
}

const reasonsOfFailure: Partial<Record<Recovery, string>> = {
  absent: 'the target directory does not exist, or its path leads to another one. Check that its disk is mounted',
  lost: 'the staging directory with the earlier files does not exist. Deploy again',
  complete: 'the deployment is already settled'
}

async function endOpen(
  executors: Executors,
  { home, deployId, placed }: { home: ExtractionHome; deployId: string; placed: 'revert' | 'settle' }
): Promise<Recovered> {
  const journalPath = journalPathOf(home, deployId)
  const executor = await executors.ofJournal(describeJournal(journalPath)?.helper ?? null)
  return putBack(executor, { journalPath, placed }, AbortSignal.timeout(openEndMs))
}

/** Time to complete or to put back a deployment. One with 200,000 files takes some seconds. */
const openEndMs = 10 * 60_000

/** Returns whether an extraction may still be put back, or is being put back; null if neither. */
export function openState(home: ExtractionHome, deployId: string): OpenState {
  return openStateOfJournal(journalPathOf(home, deployId))
}

/* Has a thread or a helper process recover the extraction of a journal. */

/** The part of the data directory that extraction needs. */
export interface ExtractionHome {
  /**
   * Absolute path of a directory. It contains `<id>.undo` until the result of an extraction is recorded, and
   * `<id>.manifest` from then on.
   */
  deployments: string
}

/** The result of a recovery: what it did, and the edited files that it kept. */
export type Recovered = Extract<Outcome, { kind: 'recovered' }>

/** Recovers the extraction of a journal. Throws if that is not possible now. */
export async function putBack(
  executor: Executor,
  job: { journalPath: string; placed: PlacedDecision },
  signal: AbortSignal
): Promise<Recovered> {
  const outcome = await executor.run({ kind: 'recover', ...job }, signal)
  if (outcome.kind === 'recovered') return outcome
  if (outcome.kind === 'failed') throw outcome.error
  throw new Error(notPutBack)
}

/** Error for a target whose file system does not respond. */
const notPutBack =
  'The target is not put back yet: its file system does not respond. The next deployment or start tries again'

export function journalPathOf({ deployments }: ExtractionHome, deployId: string): string {
  return join(deployments, `${deployId}.undo`)
}

/** Removes the journal of an extraction whose end is recorded. */
export async function removeJournal(home: ExtractionHome, deployId: string): Promise<void> {
  removeJournalFiles(journalPathOf(home, deployId))
}
