import { areOverlapping, type Lineage, lineageOf } from '../core/install/owned-tree.js'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../base/errors.js'
import {
  endJournal,
  extractArchive,
  extractionLimits,
  type ExtractOptions,
  type OpenExtractions
} from '../core/install/unpack/extract.js'
import type { Executors } from '../core/install/unpack/executors.js'
import type { Extracted } from '../core/install/unpack/extraction.js'
import type { FileJob, FoundFile } from '../core/install/target-file.js'
import type { Project } from '../model/project.js'
import { findRights, type Rights, umaskOf } from '../core/proc/identity.js'
import { requireProject } from '../core/store/tables/projects.js'
import { aheadSentence } from '../model/rollout.js'
import type { Reader } from '../core/store/database.js'
import { rolloutAhead } from '../core/store/tables/rollouts.js'
import type { StopRequest } from './failure.js'
import { type DeployFiles, modesOf } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { Pending } from './intake.js'
import type { Live } from './output/live.js'
import { type Ends, recordComplete } from './record.js'

/** Runs one entry at a time per key, in order of arrival. Different keys run in parallel. */
export type Queue = ReturnType<typeof createQueue>

export interface QueueEntry {
  key: string
  id: string
  /** Runs the entry. The next entry of its key starts when this resolves. Must not reject. */
  run(): Promise<unknown>
  /** Ends the entry without running it. */
  drop(request: StopRequest): Promise<unknown>
}

export function createQueue() {
  const lanes = new Map<string, QueueEntry[]>()

  /** Runs the entries of a key. The first entry of a lane is the running one. */
  async function runLane(key: string, lane: QueueEntry[]): Promise<void> {
    for (let entry = lane[0]; entry !== undefined; entry = lane[0]) {
      await entry.run()
      lane.shift()
    }
    lanes.delete(key)
  }

  return {
    /** Adds an entry. Returns the number of entries of its key ahead of it. If there are none, it runs at once. */
    add(entry: QueueEntry): number {
      const lane = lanes.get(entry.key)
      if (lane !== undefined) return lane.push(entry) - 1
      const fresh = [entry]
      lanes.set(entry.key, fresh)
      void runLane(entry.key, fresh)
      return 0
    },

    /** Removes a waiting entry and returns it, or undefined if it is running or unknown. */
    takeBack(id: string): QueueEntry | undefined {
      for (const lane of lanes.values()) {
        const at = lane.findIndex(entry => entry.id === id)
        if (at > 0) return lane.splice(at, 1)[0]
      }
      return undefined
    },

    /** Returns whether an entry is in the queue and does not run yet. */
    isWaiting: (id: string): boolean => [...lanes.values()].some(lane => lane.findIndex(entry => entry.id === id) > 0),
    /** Removes all waiting entries and returns them, in order of arrival within each key. */
    takeBackAll: (): QueueEntry[] => [...lanes.values()].flatMap(lane => lane.splice(1)),
    /** Returns the number of entries of a key, including the running one. */
    count: (key: string): number => lanes.get(key)?.length ?? 0
  }
}

/*
 * Locks on target directories: one deployment at a time per directory, whatever path leads there. Projects with
 * overlapping targets are refused when they are created, but a symbolic link can make two targets overlap later. So
 * each deployment resolves its target when it starts. It waits for earlier holders of that directory, of one below it,
 * or of one above it, in order of arrival.
 *
 * A holder has at most one lock and releases it before it waits for another, so there is no deadlock.
 */

/** The locks of one server. */
export type TargetLocks = ReturnType<typeof createTargetLocks>

export interface HoldOptions {
  signal: AbortSignal
  onWait?: (forWhom: string, real: string) => void
}

interface Place {
  holder: string
  /** Whether the holder has finished, and only tidies up. */
  isLeaving: boolean
  lineage: Lineage
  gone: Promise<void>
  leave(): void
}

/** Time for which nobody is told that a lock is not free because its holder tidies up. */
const quietMs = 2_000

/** Creates an empty set of locks. */
export function createTargetLocks(tidyMs = 5_000) {
  const leaving = new Set<Promise<unknown>>()
  /** Holders and waiters, in order of arrival. */
  const places: Place[] = []
  const placeOf = (holder: string): Place | undefined => places.find(place => place.holder === holder)

  function enter(holder: string, lineage: Lineage): Place {
    let leave = (): void => {}
    const gone = new Promise<void>(resolve => (leave = resolve))
    const place = { holder, isLeaving: false, lineage, gone, leave }
    places.push(place)
    return place
  }

  function release(holder: string): void {
    const index = places.findIndex(place => place.holder === holder)
    if (index !== -1) places.splice(index, 1)[0]?.leave()
  }

  /** Returns an earlier place that overlaps with this one. */
  function findBefore(own: Place): Place | undefined {
    return places.slice(0, places.indexOf(own)).find(({ lineage }) => areOverlapping(lineage, own.lineage))
  }

  async function hold(holder: string, target: string, { signal, onWait }: HoldOptions): Promise<string> {
    for (;;) {
      const lineage = await unlessAborted(lineageOf(target), signal)
      if (placeOf(holder)?.lineage.real === lineage.real) return lineage.real
      release(holder)
      const own = enter(holder, lineage)
      let other = findBefore(own)
      if (other === undefined) return lineage.real
      for (; other !== undefined; other = findBefore(own)) {
        if (other.isLeaving)
          await unlessAborted(Promise.race([other.gone, sleep(quietMs, null, { ref: false })]), signal)
        if (places.includes(other)) onWait?.(other.holder, other.lineage.real)
        await unlessAborted(other.gone, signal)
      }
      // Resolve again: the target may lead elsewhere after a wait.
    }
  }

  return {
    /**
     * Waits until no other holder uses the directory that `target` resolves to, then returns its real path. If the holder
     * already has a lock but the target now resolves elsewhere, the lock moves. `onWait` is called with the holder in the
     * way and its directory. An abort rejects with the signal's reason and releases the lock.
     */
    async hold(holder: string, target: string, options: HoldOptions): Promise<string> {
      try {
        return await hold(holder, target, options)
      } catch (error) {
        release(holder)
        throw error
      }
    },

    /** Releases the lock of a holder and wakes the next ones. Does nothing if there is no lock. */
    release,

    /** Releases the lock of a holder that has finished, after `work` has settled. */
    releaseAfter(holder: string, work: Promise<unknown>): void {
      const place = placeOf(holder)
      if (place !== undefined) place.isLeaving = true
      const end = work
        .catch(() => {})
        .then(() => {
          release(holder)
          leaving.delete(end)
        })
      leaving.add(end)
    },

    /**
     * Resolves when the locks are released that `releaseAfter` was called for, or after `tidyMs`: the file system of
     * one of them may not respond, and the others must not wait for that.
     */
    async tidied(): Promise<void> {
      await Promise.race([Promise.all(leaving), sleep(tidyMs, undefined, { ref: false })])
    },
    isHeld: (holder: string): boolean => placeOf(holder) !== undefined
  }
}

/** Rejects as soon as the signal aborts: a file system that does not respond must not delay a cancellation. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let giveUp = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason as Error)
    signal.addEventListener('abort', giveUp)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

/*
 * Work on the target of a project outside of deployments: imports, and the maintenance file. It waits in the queue of
 * the project and for the lock of the target, and an extraction in it is all or nothing, like that of a deployment. It
 * has a temporary id, no record and no output, and runs no scripts.
 */

/** The target of a project while nothing else works on it. */
export interface TargetTurn {
  /** The temporary id of an extraction. */
  id: string
  project: Project
  /** Extracts an archive over the target. */
  extract(archivePath: string, options?: Pick<ExtractOptions, 'reserved' | 'ownership'>): Promise<Extracted>
  /** Must be called after the result of an extraction is recorded. */
  settle(): Promise<void>
  /** Looks at one file of the target, or removes it. */
  file(job: Omit<FileJob, 'target' | 'real'>): Promise<FoundFile>
}

/** A wish for the target of a project. */
export interface TurnRequest {
  projectId: string
  signal?: AbortSignal | undefined
  /** The longest wait for deployments of the project; absent: no limit. */
  maxWaitMs?: number
  /** The beginning of a refusal: `Cannot restore the archive`. */
  cannot: string
}

/** Does work when the target of a project is free. Refuses: 404, 503 `shutting_down`, 409 `deployment_running`. */
export type TargetTurns = <T>(request: TurnRequest, work: (turn: TargetTurn) => Promise<T>) => Promise<T>

export interface TargetTurnsNeeds extends DeployNeeds {
  files: DeployFiles
  executors: Executors
  targets: TargetLocks
  pending: Pending
  queue: Queue
  live: Pick<Live, 'all'>
  ends: Pick<Ends, 'settle'>
  open: OpenExtractions
  refuseWhenStopping(): void
}

/** Time for one file of a target: its file system may not respond. */
const fileMs = 30_000
const retryAfterSeconds = 5

/** Creates the turns of a server. */
export function createTargetTurns(needs: TargetTurnsNeeds): TargetTurns {
  const { store, home, ids, settings, executors, targets, pending, queue } = needs

  async function run<T>(
    id: string,
    { projectId, signal = new AbortController().signal }: TurnRequest,
    work: (turn: TargetTurn) => Promise<T>
  ): Promise<T> {
    await needs.ends.settle()
    const project = requireProject(store, projectId)
    const rights = await findRights(project)
    const modes = await modesOf(project)
    const target = await executors.makeTarget(rights, project.deployPath, {
      home: home.directory,
      allowSystemPaths: needs.allowSystemPaths,
      umask: umaskOf(project),
      modes
    })
    const note = await pending.note([id])
    try {
      const real = await targets.hold(id, target, { signal })
      return await work({
        id,
        project,
        extract: (archivePath, options = {}) =>
          extractArchive(executors, {
            ...options,
            archivePath,
            target,
            real,
            limits: extractionLimits(settings),
            isDurable: settings.flag('durable_targets'),
            isAtWork: targets.isHeld,
            onEarlierComplete: earlier => recordComplete(needs, earlier),
            open: needs.open,
            rights,
            umask: umaskOf(project),
            modes,
            deployId: id,
            home,
            signal
          }),
        settle: () => endJournal(home, { deployId: id, target }),
        file: job => workOnTargetFile(executors, rights, { ...job, target, real })
      })
    } finally {
      targets.release(id)
      await note.removeFiles()
    }
  }

  return async (request, work) => {
    needs.refuseWhenStopping()
    const id = ids.id('dep_')
    return new Promise((resolve, reject) => {
      let giveUp: NodeJS.Timeout | undefined
      const { projectId, maxWaitMs, cannot, signal } = request
      const leave = (): void => {
        if (queue.takeBack(id) === undefined) return
        clearTimeout(giveUp)
        reject(signal?.reason as Error)
      }
      signal?.addEventListener('abort', leave, { once: true })
      const ahead = queue.add({
        key: projectId,
        id,
        run() {
          clearTimeout(giveUp)
          signal?.removeEventListener('abort', leave)
          return run(id, request, work).then(resolve, reject)
        },
        async drop() {
          clearTimeout(giveUp)
          const sentence = `${cannot}: the server is shutting down. Try again in a moment`
          reject(new Refusal('unavailable', 'shutting_down', sentence))
        }
      })
      if (maxWaitMs === undefined || ahead === 0) return
      giveUp = setTimeout(() => {
        if (queue.takeBack(id) === undefined) return
        const why = waitAhead(needs, projectId) ?? 'a deployment of this project is queued or running'
        const sentence = `${cannot}: ${why}. Try again when it has finished`
        reject(new Refusal('conflict', 'deployment_running', sentence, { retryAfterSeconds }))
      }, maxWaitMs)
    })
  }
}

/**
 * Works on one file of a target with the rights of its project, in the threads for comparisons: those for deployments
 * may be busy for minutes.
 */
export async function workOnTargetFile(
  executors: Pick<Executors, 'comparing'>,
  rights: Rights | null,
  file: FileJob
): Promise<FoundFile> {
  const signal = AbortSignal.timeout(fileMs)
  const outcome = await executors
    .comparing(rights)
    .run({ kind: 'file', file }, signal)
    .catch((error: unknown) => {
      if (error === signal.reason) return null
      throw error
    })
  if (outcome?.kind === 'found') return outcome.found
  if (outcome?.kind === 'failed') throw outcome.error
  const sentence = 'The file system of the target does not respond. Check it, and try again'
  throw new Refusal('unavailable', 'target_stuck', sentence)
}

/* What a deployment that is queued says about what it waits for. */

/** What is needed to say what others wait for. */
interface AheadNeeds {
  store: Reader
  live: Pick<Live, 'all'>
}

/**
 * Returns what the target of a project waits for that waits itself, and what to do: a rollout, or a confirmation. Null: there
 * is no such thing, and what is ahead ends by itself.
 */
export function waitAhead({ store, live }: AheadNeeds, projectId: string): string | null {
  const rollout = rolloutAhead(store, projectId)
  if (rollout !== null) return aheadSentence(rollout)
  const held = live.all().find(run => run.projectId === projectId && run.window !== null)
  if (held === undefined) return null
  const { deployId, window } = held
  const until = `${window?.until.slice(0, 19).replace('T', ' ')} UTC`
  return `${deployId} waits to be confirmed, until ${until}. "svc confirm ${deployId}" confirms it, with --no it is reverted`
}

/** How often a waiting deployment looks at what is ahead. */
const lookEveryMs = 2000

/**
 * Adds a deployment to the queue. Returns the number of those ahead. While it waits, `say` gets a line about what waits ahead,
 * and one whenever that changes.
 */
export function addSaying(
  { queue, ...needs }: AheadNeeds & { queue: Queue },
  entry: QueueEntry,
  say: (line: string) => void
): number {
  const ahead = queue.add(entry)
  if (ahead === 0) return 0
  let last = ''
  const look = (): void => {
    // It runs, was dropped, or is left to the next start.
    if (!queue.isWaiting(entry.id)) return clearInterval(timer)
    try {
      const line = waitAhead(needs, entry.key) ?? ''
      if (line !== '' && line !== last) say(`→ waits: ${line}`)
      last = line
    } catch {
      // The database cannot be read now. The next look tells it.
    }
  }
  const timer = setInterval(look, lookEveryMs).unref()
  // The line about the queue comes first.
  queueMicrotask(look)
  return ahead
}
