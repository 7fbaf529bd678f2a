import { lstat, readFile, realpath, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { closeSync, existsSync, fstatSync, openSync, rmSync, writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { findIdentity, type Rights } from '../../proc/identity.js'
import { bootId, type FoundProcess, killProcess } from '../../proc/stop.js'
import { checkDeployPath, ensureTarget, type NewTargetRules, realPlace, type TargetRules } from '../guard.js'
import { type JournalHelper, removeJournalFiles, writeOwner } from '../undo.js'
import { createGate, createSlices, createDoor, type Door } from '../../../base/async.js'
import { Refusal } from '../../../base/errors.js'
import { findKept, openEach, openKept } from '../../archive/pack-set.js'
import type { Archive } from '../../archive/read.js'
import { abreast, disk, isLocalTree, listMounts } from '../disk.js'
import { readOwnedEntries } from '../owned-tree.js'
import type { Ownership } from '../ownership.js'
import { beforePathOf, removeBeforeImages } from '../before-images.js'
import { deployIdOf, journalHead } from '../journal.js'
import {
  manifestOf,
  nameManifest,
  scriptedOf,
  settleManifest,
  summarizeManifest,
  unnamedManifest
} from '../manifest.js'
import {
  type Answer,
  createExtractThreads,
  type Executor,
  type HelpedJob,
  type Job,
  type Outcome,
  type ThreadOptions
} from './extract-threads.js'
import { doJob } from './job.js'
import type { HelperJob } from './extract-helper.js'

/**
 * Executes jobs on targets: with the rights of svc in threads, or without one if they are small; with those of a user
 * in processes.
 */
export type Executors = ReturnType<typeof createExecutors>

export interface ExecutorOptions extends ThreadOptions {
  /** The largest extraction that needs no thread. */
  small?: SmallLimits
}

/** Creates the executors of a server. Threads and processes start when there is work. */
export function createExecutors({ small, ...options }: ExecutorOptions = {}) {
  const threads = createExtractThreads(options)
  const own = createSmallJobs(threads, small)
  const calls = createDoor(loadCalls)
  const helpers = createExtractHelpers(calls)
  const compareThreads = createExtractThreads(options)
  const compareHelpers = createExtractHelpers(calls)
  const as = (rights: Rights | null): Executor => (rights === null ? own : helpers.as(rights))
  return {
    /** Returns the executor for these rights; null means those of svc. */
    as,
    /**
     * Returns the executor for comparisons with these rights. It has its own threads and processes, so that a
     * deployment never waits for a plan.
     */
    comparing: (rights: Rights | null): Executor => (rights === null ? compareThreads : compareHelpers.as(rights)),

    /**
     * Returns an executor with the rights of an interrupted extraction. Ends the helper process of the extraction first
     * if it still runs. Refuses (400 naming `runAs`) if the user no longer exists.
     */
    async ofJournal(helper: JournalHelper | null): Promise<Executor> {
      if (helper === null) return own
      const identity = await findIdentity(helper.user)
      const isOfThisBoot = helper.bootId === undefined || helper.bootId === bootId()
      if (isOfThisBoot) await killProcess(helper, { uids: [identity.uid], program: helperProgram })
      return as({ identity, umask: null })
    },

    /** Calls `ensureTarget` of core/install/guard.ts with these rights. */
    makeTarget: (rights: Rights | null, target: string, rules: NewTargetRules): Promise<string> =>
      rights === null ? ensureTarget(target, rules) : helpers.makeTarget(rights, target, rules),

    /** Writes the list of changes to a new file, for a script with these rights. */
    async writeChanges(rights: Rights | null, path: string, changes: Uint8Array[]): Promise<void> {
      if (rights === null) await writeFile(path, changes, { mode: 0o600 })
      else await helpers.writeChanges(rights, path, changes)
    },

    /** Ends idle threads. */
    close: async (): Promise<void> => void (await Promise.all([threads.close(), compareThreads.close()]))
  }
}

/*
 * Does small extractions in the thread that answers requests, and all other jobs in threads: starting a thread costs
 * several times as much as a small extraction. Files take turns with other work of the event loop, and syncs are
 * awaited, so requests are answered in the meantime. It is the same extraction, with the same guarantees.
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

/** The event loop never waits for 100 ms of processor time at once (test/core/install/unpack/executors.test.ts). */
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
  let archive: Archive | null = null
  try {
    if (tree !== null && (await sizeOfTree(tree)) > limits.treeBytes) return false
    const mounts = await listMounts()
    const kept = await findKept(archivePath)
    if (mounts.length === 0 || kept === null || (await stat(kept.path)).size > limits.archiveBytes) return false
    const real = extraction.real ?? (await realpath(extraction.target))
    const home = await realpath(dirname(journalPath))
    if (!isLocalTree(mounts, real) || !isLocalTree(mounts, home)) return false
    archive = await openKept(archivePath, {
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
    return (await sizeOfTree(owned)) <= limits.treeBytes && isLocalTree(await listMounts(), await realpath(target))
  } catch {
    return false
  }
}

/** Returns the size of an owned tree, given by its path or its contents. */
async function sizeOfTree(tree: string | Uint8Array): Promise<number> {
  return typeof tree === 'string' ? (await stat(tree)).size : tree.length
}

async function bytesOf(target: string, paths: Iterable<string>): Promise<number> {
  let bytes = 0
  await abreast(paths, async path => {
    const found = await lstat(`${target}/${path}`).catch(() => null)
    if (found?.isFile()) bytes += found.size
  })
  return bytes
}

/*
 * Extraction with the rights of a project's user, in helper processes instead of threads (core/proc/helper.ts).
 *
 * svc opens archive, journal and manifest, because the user has no permission to access the data directory. The process
 * does all the work below the target. It cannot be asked to stop: an abort kills it, and another process puts the
 * target back. `<id>.helper` names the process (core/install/undo.ts). If svc is killed, the process may outlive it;
 * the next start ends the process before it recovers the extraction of the journal.
 */

/** The same number as threads: each process needs as much memory, and uses the same disk. */
const maxProcesses = 2
const module = new URL('./extract-helper.js', import.meta.url)
/** The word of the command line by which a helper process is recognized. */
export const helperProgram = fileURLToPath(module)

/** What starts a helper process and reads its answers. Only a target with a user of its own needs it. */
async function loadCalls() {
  const [process, answers] = await Promise.all([import('../../proc/helper.js'), import('../helper-answers.js')])
  return { ...process, ...answers }
}

type HelperCalls = Awaited<ReturnType<typeof loadCalls>>

/** Creates an executor in helper processes. A process starts for each job. */
function createExtractHelpers(calls: Door<HelperCalls>) {
  const gate = createGate({ places: maxProcesses })
  const stuck = new Set<string>()

  function noteStuck(deployId: string, gone: Promise<void>): void {
    stuck.add(deployId)
    void gone.then(() => stuck.delete(deployId))
  }

  async function attempt(job: Job, rights: Rights, signal: AbortSignal): Promise<Outcome> {
    const { runHelper, answerTo, HelperStuck } = await calls()
    const call: Call = (job, asked, given = {}) =>
      runHelper<HelperJob, Answer>({ module, rights, job, read: answerTo(asked), signal, ...given })
    try {
      if (job.kind === 'discard') throw new Error('A helper process leaves nothing')
      if (job.kind === 'look') return await look(job, call)
      if (!('journalPath' in job)) return await call(job, job)
      return await (job.kind === 'extract' ? extract(job, rights, call) : recoverAs(job, call))
    } catch (error) {
      if (error instanceof HelperStuck) {
        if ('journalPath' in job) noteStuck(deployIdOf(job.journalPath), error.gone)
        return { kind: 'stuck' }
      }
      return signal.aborted ? { kind: 'died' } : { kind: 'failed', error }
    }
  }

  return {
    /** Returns the executor for these rights. */
    as: (rights: Rights): Executor => ({
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

    /** Calls `ensureTarget` of core/install/guard.ts with these rights, and refuses what that refuses. */
    async makeTarget(rights: Rights, target: string, rules: TargetRules): Promise<string> {
      const job: HelperJob = { kind: 'make', target, rules }
      const { runHelper, nothing } = await calls()
      await runHelper<HelperJob, void>({ module, rights, job, read: nothing })
      return checkDeployPath(target, rules)
    },

    /** Writes the list of changes for a script to a new file that the user owns. */
    async writeChanges(rights: Rights, path: string, changes: Uint8Array[]): Promise<void> {
      const { runHelper, nothing } = await calls()
      await runHelper<HelperJob, void>({ module, rights, job: { kind: 'list', path, changes }, read: nothing })
    }
  }
}

/** Lets a helper process do a job, and reads what answers the job of the executor. */
type Call = (
  job: HelperJob,
  asked: HelpedJob,
  given?: { descriptors?: readonly number[]; onStart?: (process: FoundProcess) => void }
) => Promise<Answer>

/** Returns the same with the contents of the owned tree: the user has no permission to read its file. */
async function withContents(ownership: Ownership | undefined): Promise<Ownership | undefined> {
  return typeof ownership?.tree === 'string' ? { ...ownership, tree: await readFile(ownership.tree) } : ownership
}

async function extract(job: Extract<Job, { kind: 'extract' }>, rights: Rights, call: Call): Promise<Answer> {
  const { archivePath, journalPath, manifestPath, extraction } = job
  const opened: number[] = []
  const open = (path: string, flags: string): number => {
    opened.push(openSync(path, flags, 0o600))
    return opened.at(-1) as number
  }
  const unnamed = unnamedManifest(manifestPath)
  let journal: number | undefined
  try {
    const archives: number[] = []
    openEach(archivePath, path => void archives.push(open(path, 'r')))
    const [archive, ...packs] = archives as [number, ...number[]]
    journal = open(journalPath, 'ax+')
    const manifest = open(unnamed, 'w')
    const before = open(beforePathOf(journalPath), 'w')
    writeSync(journal, journalHead)
    const onStart = (process: FoundProcess): void => {
      const { name: user, uid } = rights.identity
      const target = extraction.real ?? realPlace(extraction.target)
      writeOwner(disk, journalPath, { user, uid, ...process, bootId: bootId(), target })
    }
    const descriptors = [archive, journal, manifest, before, ...packs]
    const given = { ...extraction, ownership: await withContents(extraction.ownership) }
    const answer = await call({ kind: 'extract', extraction: given, packs: packs.length }, job, {
      descriptors,
      onStart
    })
    nameManifest(disk, manifestPath)
    if (answer.kind !== 'extracted') return answer
    const { extracted } = answer
    if (extracted.beforeBytes === 0) removeBeforeImages(disk, journalPath)
    if (extracted.changes.length === 0) extracted.changes = (await summarizeManifest(manifestPath)).changes
    return answer
  } finally {
    endJournal(journal, journalPath)
    // As long as the journal exists, its recovery decides about the manifest.
    if (!existsSync(journalPath)) {
      rmSync(unnamed, { force: true })
      if (!existsSync(manifestPath)) rmSync(beforePathOf(journalPath), { force: true })
    }
    for (const fd of opened) closeSync(fd)
  }
}

async function look(job: Extract<Job, { kind: 'look' }>, call: Call): Promise<Answer> {
  const images = openSync(job.imagesPath, 'w', 0o600)
  try {
    return await call({ kind: 'look', look: job.look }, job, { descriptors: [images] })
  } finally {
    closeSync(images)
  }
}

async function recoverAs({ journalPath, placed }: Extract<Job, { kind: 'recover' }>, call: Call): Promise<Answer> {
  const journal = openSync(journalPath, 'a+')
  const manifest = openSync(manifestOf(journalPath) ?? '/dev/null', 'r')
  const scripted = openSync(scriptedOf(journalPath) ?? '/dev/null', 'r')
  try {
    const job: HelperJob = { kind: 'recover', deployId: deployIdOf(journalPath), placed }
    const descriptors = [journal, manifest, scripted]
    const answer = await call(job, { kind: 'recover', journalPath, placed }, { descriptors })
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
