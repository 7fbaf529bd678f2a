import { lstat, realpath, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { findIdentity, type Rights } from '../../proc/identity.js'
import { bootId, killProcess } from '../../proc/stop.js'
import { ensureTarget, type NewTargetRules } from '../guard.js'
import type { JournalHelper } from '../undo.js'
import { createGate, createSlices } from '../../base/async.js'
import { Refusal } from '../../base/errors.js'
import { type Archive, openArchive } from '../../archive/read.js'
import { abreast, isLocalTree, listMounts } from '../disk.js'
import { readOwnedEntries } from '../owned-tree.js'
import { createExtractHelpers, helperProgram } from './extract-helpers.js'
import { createExtractThreads, type Executor, type Job, type Outcome, type ThreadOptions } from './extract-threads.js'
import { doJob } from './job.js'

/**
 * Executes jobs on targets: with the rights of svc in threads, or without one if they are small; with those of a user in
 * processes.
 */
export interface Executors {
  /** Returns the executor for these rights; null means those of svc. */
  as(rights: Rights | null): Executor
  /**
   * Returns the executor for comparisons with these rights. It has its own threads and processes, so that a deployment
   * never waits for a plan.
   */
  comparing(rights: Rights | null): Executor
  /**
   * Returns an executor with the rights of an interrupted extraction. Ends the helper process of the extraction first
   * if it still runs. Refuses (400 naming `runAs`) if the user no longer exists.
   */
  ofJournal(helper: JournalHelper | null): Promise<Executor>
  /** Calls `ensureTarget` of install/guard.ts with these rights. */
  makeTarget(rights: Rights | null, target: string, rules: NewTargetRules): Promise<string>
  /** Writes the list of changes to a new file, for a script with these rights. */
  writeChanges(rights: Rights | null, path: string, changes: Uint8Array[]): Promise<void>
  /** Ends idle threads. */
  close(): Promise<void>
}

/** Options of the executors of a server. */
export interface ExecutorOptions extends ThreadOptions {
  /** The largest extraction that needs no thread. */
  small?: SmallLimits
}

/** Creates the executors of a server. Threads and processes start when there is work. */
export function createExecutors({ small, ...options }: ExecutorOptions = {}): Executors {
  const threads = createExtractThreads(options)
  const own = createSmallJobs(threads, small)
  const helpers = createExtractHelpers()
  const compareThreads = createExtractThreads(options)
  const compareHelpers = createExtractHelpers()
  const as = (rights: Rights | null): Executor => (rights === null ? own : helpers.as(rights))
  return {
    as,
    comparing: rights => (rights === null ? compareThreads : compareHelpers.as(rights)),
    async ofJournal(helper) {
      if (helper === null) return own
      const identity = await findIdentity(helper.user)
      const isOfThisBoot = helper.bootId === undefined || helper.bootId === bootId()
      if (isOfThisBoot) await killProcess(helper, { uids: [identity.uid], program: helperProgram })
      return as({ identity, umask: null })
    },
    makeTarget: (rights, target, rules) =>
      rights === null ? ensureTarget(target, rules) : helpers.makeTarget(rights, target, rules),
    async writeChanges(rights, path, changes) {
      if (rights === null) await writeFile(path, changes, { mode: 0o600 })
      else await helpers.writeChanges(rights, path, changes)
    },
    close: async () => void (await Promise.all([threads.close(), compareThreads.close()]))
  }
}

/*
 * Does small extractions in the thread that answers requests, and all other jobs in threads: starting a thread costs
 * several times as much as a small extraction. Files take turns with other work of the event loop, and syncs are awaited,
 * so requests are answered in the meantime. It is the same extraction, with the same guarantees.
 */

/** The same number as threads: they use the same disk. */
const maxAtOnce = 2

/**
 * Maximum number of checks of a job. There is one for each entry, and one for each piece of a file that is read: more
 * than a small extraction needs, and a second of reading.
 */
const maxChecks = 4_096

/** Returns the check of a job: the owner of the target may make a file large after it was found to be small. */
function checkOf(signal: AbortSignal): () => void {
  let left = maxChecks
  return () => {
    signal.throwIfAborted()
    if (--left < 0) throw grown()
  }
}

function grown(): Refusal {
  const sentence = 'A file of the target grew while the deployment read it. Deploy again when nothing else writes there'
  return new Refusal('conflict', 'changed_meanwhile', sentence)
}

/** Creates an executor that leaves jobs that are not small to `threads`. */
function createSmallJobs(threads: Executor, limits: SmallLimits = defaultSmall): Executor {
  const gate = createGate({ places: maxAtOnce })
  const slices = createSlices()

  async function runHere(job: Job, signal: AbortSignal): Promise<Outcome> {
    const leave = await gate.enter(signal)
    try {
      return await doJob(job, { check: checkOf(signal), pause: () => slices.turn() })
    } catch (error) {
      return { kind: 'failed', error }
    } finally {
      leave()
    }
  }

  return {
    async run(job, signal) {
      if (job.kind === 'extract' && (await isSmallExtraction(job, limits))) return runHere(job, signal)
      if (job.kind === 'mark' && (await isSmallMark(job, limits))) return runHere(job, signal)
      return threads.run(job, signal)
    },
    isStuck: threads.isStuck
  }
}

/*
 * Decides which extractions are small: they take some milliseconds, less than a thread takes to start. Their sizes are
 * known before anything begins, from the directory of the archive, the target, and the tree of owned files. The target
 * must be on a local file system: a call to another may take forever, and would stop the whole server.
 */

/** The largest extraction that is small. */
export interface SmallLimits {
  /** Size of the archive. */
  archiveBytes: number
  /** Uncompressed size of its files. */
  bytes: number
  entries: number
  /** Size of the files of the target that are read: those that are replaced or removed. */
  existingBytes: number
  /** Size of the tree of the files that svc owns. */
  treeBytes: number
}

/** The event loop never waits for 100 ms of processor time at once (test/install/unpack/executors.test.ts). */
export const defaultSmall: SmallLimits = {
  archiveBytes: 1024 * 1024,
  bytes: 4 * 1024 * 1024,
  entries: 256,
  existingBytes: 1024 * 1024,
  treeBytes: 128 * 1024
}

/** Whether an extraction is small. If that cannot be found out, it is not. */
export async function isSmallExtraction(
  job: Extract<Job, { kind: 'extract' }>,
  limits: SmallLimits = defaultSmall
): Promise<boolean> {
  const { archivePath, journalPath, extraction } = job
  const tree = extraction.ownership?.tree ?? null
  if (tree !== null && tree.length > limits.treeBytes) return false
  let archive: Archive | null = null
  try {
    const mounts = await listMounts()
    if (mounts.length === 0 || (await stat(archivePath)).size > limits.archiveBytes) return false
    const real = extraction.real ?? (await realpath(extraction.target))
    const home = await realpath(dirname(journalPath))
    if (!isLocalTree(mounts, real) || !isLocalTree(mounts, home)) return false
    archive = await openArchive(archivePath, {
      ...extraction.limits,
      maxEntries: Math.min(limits.entries, extraction.limits.maxEntries),
      maxExtractedBytes: Math.min(limits.bytes, extraction.limits.maxExtractedBytes)
    })
    const paths = new Set(archive.entries.map(({ path }) => path))
    // An edited file may be larger than the tree says.
    if (tree !== null && extraction.ownership?.removes) {
      for await (const { path } of readOwnedEntries(tree)) paths.add(path)
    }
    return (await bytesOf(real, paths)) <= limits.existingBytes
  } catch {
    // A thread finds out what is wrong.
    return false
  } finally {
    archive?.close()
  }
}

/** Whether marking is small: its target is local, and the tree is. */
async function isSmallMark(
  { mark: { target, owned } }: Extract<Job, { kind: 'mark' }>,
  limits: SmallLimits = defaultSmall
): Promise<boolean> {
  try {
    const size = typeof owned === 'string' ? (await stat(owned)).size : owned.length
    return size <= limits.treeBytes && isLocalTree(await listMounts(), await realpath(target))
  } catch {
    return false
  }
}

async function bytesOf(target: string, paths: Iterable<string>): Promise<number> {
  let bytes = 0
  await abreast(paths, async path => {
    const found = await lstat(`${target}/${path}`).catch(() => null)
    if (found?.isFile()) bytes += found.size
  })
  return bytes
}
