/*
 * Verifies the files of a project: every entry of its owned tree is compared with the target (core/install/verify.ts). The
 * tree is cut into slices, so that two threads work, progress can be reported, and memory does not depend on the number
 * of files. Nothing is written.
 */

import { createGate, type Gate } from '../base/async.js'
import { invalid, Refusal } from '../base/errors.js'
import { UnusableTree } from '../core/install/owned-tree.js'
import type { Executor } from '../core/install/unpack/extract-threads.js'
import type { Executors } from '../core/install/unpack/executors.js'
import { isLink, type SliceFinding, type VerifyJob } from '../core/install/verify.js'
import type { Project } from '../model/project.js'
import type { OwnedEntry } from '../model/manifest.js'
import type { FindingState, VerifyEvent, VerifyTotals } from '../model/plan.js'
import { findRights, type Rights } from '../core/proc/identity.js'
import { requireProject } from '../core/store/tables/projects.js'
import { countOf } from '../base/text.js'
import type { DeployNeeds } from './needs.js'
import { isSameHead, type Owned, type Trees, type TreeStates } from './trees.js'
import { type ExactState, findScripted, hasSource, treeNotReady, type WantedFrom } from './exact-state.js'
import type { DeployFiles } from './files.js'

export interface VerifyRequest {
  projectId: string
  /** Whether the SHA-256 of each regular file is listed, too. */
  sums: boolean
  /** An abort ends the verification. */
  signal: AbortSignal
}

/** Verifies targets: one verification per project at a time. */
export type Verifier = ReturnType<typeof createVerifier>

/** What to compare. */
export interface DifferencesRequest {
  /** Null: every entry. */
  paths: readonly string[] | null
  /** Whether it is refused while a verification is in progress. */
  isAlone: boolean
  /** Whether a file with another time differs. */
  withTimes: boolean
  signal: AbortSignal
}

/** The result of a comparison. */
export interface Differences {
  /** In canonical order. */
  different: OwnedEntry[]
  /** The paths that svc does not own. */
  unknown: string[]
  /** Whether the list of what svc owns is not there yet, or there is none. */
  missing?: 'building' | 'none'
}

export interface VerifierNeeds extends Pick<DeployNeeds, 'store' | 'home' | 'allowSystemPaths'> {
  executors: Pick<Executors, 'comparing'>
  trees: Pick<Trees, 'read'>
  states: Pick<TreeStates, 'figures' | 'verified'>
  /** Whether a deployment of the project is queued or running. */
  hasRunning(projectId: string): boolean
}

/** Limits of a slice: it ends after the entry that reaches one of them. */
interface SliceLimits {
  entries: number
  bytes: number
}

const bytesPerMegabyte = 1024 * 1024
/** Time to wait for the owned tree if nothing can be done without it. */
const longWaitMs = 60_000
/** Two slices are in work, and one waits, so that no thread waits for the event loop. */
const slicesAhead = 3
const threadSlice: SliceLimits = { entries: 1000, bytes: 16 * bytesPerMegabyte }
/** A process starts for each slice, so slices are larger. Two processes work at a time. */
const maxProcessSlice: SliceLimits = { entries: 20_000, bytes: 256 * bytesPerMegabyte }
/** One slice with a file above this size is read at a time, so that a thread is left for the others. */
const largeBytes = 128 * bytesPerMegabyte
/** Time after which the progress is repeated, so that no proxy takes the connection for dead. */
const repeatMs = 10_000

/** Creates the verifier. The threads are those of comparisons. */
export function createVerifier(needs: VerifierNeeds) {
  const { store, home, allowSystemPaths, executors, trees, states } = needs
  const busy = new Set<string>()
  const large = createGate({ places: 1 })

  async function* run(project: Project, { sums, signal }: VerifyRequest): AsyncGenerator<VerifyEvent[]> {
    const rights = await findRights(project)
    const owned = await trees.read(project.id, undefined, false)
    if (owned.baseline !== 'owned') {
      yield [{ event: 'start', files: 0, baseline: owned.baseline }, endOf(0, countNothing(), false)]
      return
    }
    const wasRunning = needs.hasRunning(project.id)
    const { files } = await states.figures(project.id, owned)
    const { executor, given } = workOf(project, { rights, files, signal })
    const counts = countNothing()
    let done = 0
    let hasBegun = false
    for await (const { slice, findings } of verifySlices(owned.entries(), executor, given)) {
      const events: VerifyEvent[] = hasBegun ? [] : [{ event: 'start', files, baseline: 'owned' }]
      hasBegun = true
      for (const { index, state } of findings) {
        const { path, since } = slice[index] as OwnedEntry
        counts[state]++
        events.push({ event: 'finding', path, state, since })
      }
      if (sums)
        for (const entry of slice)
          if (!isLink(entry)) events.push({ event: 'file', path: entry.path, sha256: entry.sha256 })
      done += slice.length
      yield [...events, { event: 'progress', done, files }]
    }
    const isOutdated = wasRunning || needs.hasRunning(project.id) || (await hasMoved(trees, project, owned))
    const end = endOf(done, counts, isOutdated)
    if (!isOutdated) states.verified(project.id, owned.head, done - end.ok)
    yield [...(hasBegun ? [] : [{ event: 'start', files, baseline: 'owned' } as const]), end]
  }

  function workOf(
    project: Project,
    { rights, files, signal }: { rights: Rights | null; files: number; signal: AbortSignal }
  ): { executor: Executor; given: GivenSlices } {
    const job = { target: project.deployPath, rules: { home: home.directory, allowSystemPaths } }
    const limits = rights === null ? threadSlice : processSlice(files)
    return { executor: executors.comparing(rights), given: { job, limits, large, signal } }
  }

  function enter(project: Project): void {
    if (busy.has(project.id)) throw isBusy(project)
    busy.add(project.id)
  }

  async function compare(project: Project, { paths, withTimes, signal }: DifferencesRequest): Promise<Differences> {
    const rights = await findRights(project)
    const owned = await trees.read(project.id, longWaitMs)
    const unknown = new Set(paths)
    if (owned.baseline !== 'owned') return { different: [], unknown: [...unknown], missing: owned.baseline }
    const files = paths?.length ?? (await states.figures(project.id, owned)).files
    const { executor, given } = workOf(project, { rights, files, signal })
    const different: OwnedEntry[] = []
    const entries = paths === null ? owned.entries() : taken(owned.entries(), unknown)
    for await (const { slice, findings } of verifySlices(entries, executor, { ...given, withTimes })) {
      for (const { index } of findings) different.push(slice[index] as OwnedEntry)
    }
    return { different, unknown: [...unknown] }
  }

  return {
    /**
     * Yields events, some at a time. Refuses: 404, `verify_busy`, and what core/install/verify.ts refuses. An abort throws the
     * reason of the signal.
     */
    async *verify(request: VerifyRequest): AsyncGenerator<VerifyEvent[]> {
      const { projectId } = request
      const project = requireProject(store, projectId)
      enter(project)
      try {
        yield* run(project, request)
      } catch (error) {
        if (!(error instanceof UnusableTree)) throw error
        await trees.read(projectId)
        throw wasTorn()
      } finally {
        busy.delete(projectId)
      }
    },
    /** Returns the entries that differ. Refuses like `verify`. */
    async differences(project: Project, request: DifferencesRequest): Promise<Differences> {
      if (!request.isAlone) return compare(project, request)
      enter(project)
      try {
        return await compare(project, request)
      } finally {
        busy.delete(project.id)
      }
    }
  }
}

/** Yields the entries with these paths, and takes the paths from the set. */
async function* taken(entries: AsyncIterable<OwnedEntry>, paths: Set<string>): AsyncGenerator<OwnedEntry> {
  for await (const entry of entries) if (paths.delete(entry.path)) yield entry
}

function processSlice(files: number): SliceLimits {
  const half = Math.ceil(files / 2)
  const entries = Math.min(maxProcessSlice.entries, Math.max(threadSlice.entries, half))
  return { ...maxProcessSlice, entries }
}

interface SliceResult {
  slice: OwnedEntry[]
  findings: SliceFinding[]
}

interface GivenSlices {
  job: Omit<VerifyJob, 'entries'>
  limits: SliceLimits
  /** Shared by all verifications: the place of a slice with a large file. */
  large: Gate
  withTimes?: boolean
  signal: AbortSignal
}

/**
 * Yields the result of each slice, in order. Yields an empty slice now and then while a large one is read. Ends the
 * jobs in work if the caller stops.
 */
async function* verifySlices(
  entries: AsyncIterable<OwnedEntry>,
  executor: Executor,
  { job, limits, large, withTimes = false, signal }: GivenSlices
): AsyncGenerator<SliceResult> {
  const stop = new AbortController()
  const end = (): void => stop.abort(signal.reason)
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  const either = stop.signal
  const slices = cut(entries, limits)
  const running: Array<Promise<SliceResult>> = []

  async function verifySlice(slice: OwnedEntry[]): Promise<SliceResult> {
    const plain = slice.map(({ mtimeMs, ino: _, since: __, ...entry }) => (withTimes ? { ...entry, mtimeMs } : entry))
    const leave = slice.some(({ size }) => size > largeBytes) ? await large.enter(either) : () => {}
    const outcome = await executor.run({ kind: 'verify', verify: { ...job, entries: plain } }, either).finally(leave)
    if (outcome.kind === 'verified') return { slice, findings: outcome.findings }
    either.throwIfAborted()
    if (outcome.kind === 'failed') throw outcome.error
    throw new Error(`The verification of "${job.target}" ended without an answer: ${outcome.kind}`)
  }

  try {
    for (let hasMore = true; ; ) {
      while (hasMore && running.length < slicesAhead) {
        const next = await slices.next()
        hasMore = next.done !== true
        if (next.done) break
        const result = verifySlice(next.value)
        result.catch(() => {})
        running.push(result)
      }
      const first = running[0]
      if (first === undefined) return
      const result = await within(first, repeatMs)
      if (result !== null) void running.shift()
      yield result ?? { slice: [], findings: [] }
    }
  } finally {
    signal.removeEventListener('abort', end)
    stop.abort()
    await Promise.allSettled(running)
    await slices.return(undefined)
  }
}

async function* cut(entries: AsyncIterable<OwnedEntry>, limits: SliceLimits): AsyncGenerator<OwnedEntry[]> {
  let slice: OwnedEntry[] = []
  let bytes = 0
  for await (const entry of entries) {
    slice.push(entry)
    bytes += entry.size
    if (slice.length < limits.entries && bytes < limits.bytes) continue
    yield slice
    slice = []
    bytes = 0
  }
  if (slice.length > 0) yield slice
}

/** Returns the value of a promise, or null if it takes longer. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>(resolve => (timer = setTimeout(resolve, ms, null)))
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

type Counts = Record<FindingState, number>

function countNothing(): Counts {
  return { changed: 0, missing: 0, other_type: 0, mode: 0 }
}

function endOf(files: number, { changed, missing, other_type: otherType, mode }: Counts, isOutdated: boolean) {
  const ok = files - changed - missing - otherType - mode
  return { event: 'end', files, ok, changed, missing, otherType, mode, isOutdated } satisfies VerifyTotals & {
    event: 'end'
  }
}

/** Whether a deployment changed the owned tree since it was read. */
async function hasMoved(
  trees: Pick<Trees, 'read'>,
  { id }: Project,
  { head }: Extract<Owned, { baseline: 'owned' }>
): Promise<boolean> {
  const now = await trees.read(id, undefined, false)
  return now.baseline !== 'owned' || !isSameHead(now.head, head)
}

function isBusy({ name }: Project): Refusal {
  const sentence = `Another verification of "${name}" is in progress. Try again in a moment`
  return new Refusal('conflict', 'verify_busy', sentence, { retryAfterSeconds: 5 })
}

function wasTorn(): Refusal {
  const sentence = 'The list of the files that svc owns in the target was damaged, and was made again. Verify again'
  return new Refusal('conflict', 'changed_meanwhile', sentence)
}

/*
 * A repair puts back the files of a project that are not as svc put them there, from the archives that are kept. It is a
 * deployment of these files only (exact.ts), without scripts unless they are asked for. Edited files that it replaces go
 * into its before-images, so an undo brings them back.
 */

/** What a repair puts back. */
export interface RepairGoal {
  paths: readonly string[]
  /** Whether the scripts of the live deployment run. */
  runScripts: boolean
}

export interface RepairNeeds {
  files: DeployFiles
  verifier: Pick<Verifier, 'differences'>
}

/** What to look for before a repair. */
export interface Looking {
  /** Null: every file. */
  paths: readonly string[] | null
  signal: AbortSignal
}

/**
 * Returns the files that a repair would put back. Refuses (`conflict`): nothing_to_repair, no_content, and what a
 * verification refuses; (`invalid`) paths that svc did not put there.
 */
export async function findRepair(
  needs: RepairNeeds,
  project: Project,
  { paths, signal }: Looking
): Promise<WantedFrom[]> {
  const { different, unknown, missing } = await needs.verifier.differences(project, {
    paths,
    isAlone: true,
    withTimes: false,
    signal
  })
  refuseMissing(project, missing)
  const [foreign] = unknown
  if (foreign !== undefined) throw invalid('paths', `"${foreign}" in "paths" is not a file that svc put there`)
  if (different.length === 0) throw nothingToRepair(project)
  return contentsOf(needs.files, different)
}

/** Returns what a repair must put back now. Refuses (`conflict`, no_content). */
export async function repairState(
  needs: RepairNeeds,
  { project, goal, signal }: { project: Project; goal: RepairGoal; signal: AbortSignal }
): Promise<ExactState> {
  const { paths } = goal
  const asked = { paths, isAlone: false, withTimes: false, signal }
  const { different, missing } = await needs.verifier.differences(project, asked)
  refuseMissing(project, missing)
  const wanted = await contentsOf(needs.files, different)
  return { wanted, removed: [], directories: [] }
}

/** Returns the line of the output about a repair. */
export function repairSentence({ wanted }: ExactState): string {
  return wanted.length === 0 ? 'every file is as deployed' : `puts back ${countOf(wanted.length, 'file')}`
}

/** Returns the entries with the places of their contents. Refuses (`conflict`, no_content). */
async function contentsOf(files: DeployFiles, entries: readonly OwnedEntry[]): Promise<WantedFrom[]> {
  const wanted = entries.map(({ since, ino: _, ...entry }): WantedFrom => {
    return { ...entry, source: { kind: 'archive', deployId: since } }
  })
  await findScripted(files, wanted, ({ path }) => {
    throw noContent(path, 'what a script made of it was too large to be kept')
  })
  for (const { path, source } of wanted) {
    if (source === null || hasSource(files, source)) continue
    const what = source.kind === 'archive' ? 'archive' : 'copy of files that scripts have changed'
    throw noContent(path, `the ${what} of deployment ${source.deployId}, which contains it, has been removed`)
  }
  return wanted
}

function refuseMissing({ name }: Project, missing: Differences['missing']): void {
  if (missing === 'building') throw treeNotReady()
  if (missing === undefined) return
  const sentence = `Nothing to repair: svc has put no files into the target of "${name}"`
  throw new Refusal('conflict', 'nothing_to_repair', sentence)
}

function noContent(path: string, why: string): Refusal {
  return new Refusal('conflict', 'no_content', `Cannot put "${path}" back: ${why}. Deploy again`)
}

function nothingToRepair({ name }: Project): Refusal {
  return new Refusal('conflict', 'nothing_to_repair', `Nothing to repair: every file of "${name}" is as deployed`)
}
