/*
 * Archive → target, all or nothing, off the event loop.
 *
 * The work is done by a thread (extract-threads.ts). This side only supervises: it passes an abort on, and when the
 * thread dies without an answer it puts the target back itself.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ArchiveLimits } from '../archive/read.js'
import { unpackError } from '../base/packed-error.js'
import { Refusal } from '../base/refusal.js'
import { disk } from '../target/disk.js'
import { listJournals, recover, targetOf } from '../target/undo.js'
import type { ExtractThreads } from './extract-threads.js'
import type { Extracted, ExtractionJob } from './extraction.js'

/** The part of the data directory that extraction needs. */
export interface ExtractionHome {
  /** Absolute; holds `<id>.undo` while an extraction goes on, and `<id>.manifest` from then on. */
  deployments: string
}

export interface ExtractOptions {
  archivePath: string
  /** The project's deployPath; made when it is missing. */
  target: string
  deployId: string
  home: ExtractionHome
  limits: ArchiveLimits
  signal: AbortSignal
}

const maxEntries = 200_000 // decisions §4
const megabyte = 1024 * 1024

/** What an archive may hold, as the settings are now. */
export function extractionLimits(settings: { number(key: 'max_extracted_size'): number }): ArchiveLimits {
  return { maxExtractedBytes: settings.number('max_extracted_size') * megabyte, maxEntries }
}

/**
 * Extracts an archive into a target. When it resolves, everything is in place; when it rejects, the target is what it
 * was. Refuses what archive/read.ts, names.ts, links.ts, entry-data.ts and target/plan.ts refuse, and
 * (`unavailable`) no_space, not_permitted; an abort rejects with the signal's reason.
 */
export async function extractArchive(threads: ExtractThreads, options: ExtractOptions): Promise<Extracted> {
  const { archivePath, target, deployId, home, limits, signal } = options
  signal.throwIfAborted()
  finishEarlier(home, target)
  const job: ExtractionJob = {
    archivePath, target, deployId, deployments: home.deployments, umask: process.umask(), limits
  }
  const answer = await threads.run(job, signal)
  if (answer?.kind === 'extracted') return answer.extracted
  if (answer === null) putBack(home, deployId)
  if (signal.aborted) throw signal.reason
  throw answer === null ? new Error('The thread that extracted the archive died') : explain(unpackError(answer.error))
}

function putBack(home: ExtractionHome, deployId: string): void {
  const path = join(home.deployments, `${deployId}.undo`)
  if (existsSync(path)) recover(disk, path)
}

/** An extraction into the same target that could not be put back at the time must be first. */
function finishEarlier(home: ExtractionHome, target: string): void {
  for (const { path } of listJournals(home.deployments)) {
    const real = disk.lstatSync(target, { throwIfNoEntry: false }) === undefined ? target : disk.realpathSync(target)
    if (targetOf(path) === real) recover(disk, path)
  }
}

const sentences: Record<string, [code: string, sentence: string]> = {
  ENOSPC: ['no_space', 'there is no space left on the file system of the target'],
  EDQUOT: ['no_space', 'the disk quota is used up on the file system of the target'],
  EROFS: ['not_permitted', 'the file system of the target is read-only'],
  EACCES: ['not_permitted', 'svc may not write there'],
  EPERM: ['not_permitted', 'svc may not write there']
}

/** What the disk said, where the operator can cure it. */
function explain(error: Error): Error {
  const { code, message } = error as NodeJS.ErrnoException
  const known = sentences[code ?? '']
  if (error instanceof Refusal || known === undefined) return error
  return new Refusal('unavailable', known[0], `The target was left as it was: ${known[1]} (${message})`, { cause: error })
}

/**
 * Ends what a crash cut short, before anything else is done at start: targets become what they were. Answers the ids of
 * the deployments put back. One that cannot be (its disk is missing) is reported, stays, and is tried again later.
 */
export async function recoverTargets(
  { home, onProblem = () => {} }: { home: ExtractionHome; onProblem?: (deployId: string, error: unknown) => void }
): Promise<string[]> {
  const putBack: string[] = []
  for (const { deployId, path } of listJournals(home.deployments)) {
    try {
      if (recover(disk, path) === 'put back') putBack.push(deployId)
    } catch (error) {
      onProblem(deployId, error)
    }
  }
  return putBack
}
