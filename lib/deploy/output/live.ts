import { setTimeout as sleep } from 'node:timers/promises'
import { createSlices, type Slices } from '../../base/async.js'
import type { AuditEvent } from '../../model/audit.js'
import type { DeploymentRow } from '../../model/deployment.js'
import type { StopRequest } from '../failure.js'
import type { Output } from './output.js'
import { checkedOffset, readBlock, type StoredBlock } from './stored-output.js'

/** A deployment that is queued or running, or whose background script is still running. */
export interface LiveRun {
  readonly deployId: string
  readonly projectId: string
  readonly output: Output
  readonly signal: AbortSignal
  /** Stops the deployment. Only the first request has an effect. */
  stop(request: StopRequest): void
  /** What users asked of the run: their audit entries, which join the transaction of its end. */
  readonly asked: Set<(end: DeploymentRow) => AuditEvent>
  /** Lets a deployment that waits for its checks or its confirmation continue at the next start. */
  suspend(): void
  /** Aborted by `suspend`. */
  readonly suspending: AbortSignal
  /** Aborted when the server stops and does not wait for the deployment. */
  readonly forced: AbortSignal
  /** Whether the files are in place and the earlier ones can still be put back. */
  isHeld: boolean
  /** The time in which the deployment waits to be confirmed; null if it does not. */
  window: ConfirmWindow | null
  /** Wakes the followers, because the output has grown. */
  wake(): void
  /** Number of wakes so far. */
  readonly wakes: number
  /** Resolves on a wake or end after `since`, a value of `wakes`. Throws the signal's reason. */
  woken(since: number, signal?: AbortSignal): Promise<void>
  /** Ends the run with its final record. */
  end(row: DeploymentRow): void
  readonly isOver: boolean
  readonly finished: Promise<DeploymentRow>
  /** Resolves when the background script has ended. Null if there is none. */
  tail: Promise<void> | null
  /** Stops watching the background script, which continues. */
  leave(): void
  /** Aborted by `leave`. */
  readonly leaving: AbortSignal
}

/** The deployments that are queued or running, or whose background script is still running. */
export interface Live {
  /** Shared reads of output files. */
  readonly reads: SharedReads
  /** Number of requests that follow an output now. */
  followers: number
  begin(facts: Pick<LiveRun, 'deployId' | 'projectId' | 'output'>): LiveRun
  all(): LiveRun[]
  find(deployId: string): LiveRun | undefined
  hasRunning(projectId: string): boolean
  /** Removes a run that has ended, or was never recorded. Its followers read to the end and stop. */
  forget(deployId: string): void
}

/** Creates an empty list of deployments. */
export function createLive(): Live {
  const runs = new Map<string, LiveRun>()
  const slices = createSlices()
  return {
    reads: createSharedReads(),
    followers: 0,
    begin(facts) {
      const run = createRun(facts, slices)
      runs.set(run.deployId, run)
      return run
    },
    all: () => [...runs.values()],
    find: deployId => runs.get(deployId),
    hasRunning: projectId => [...runs.values()].some(run => run.projectId === projectId && !run.isOver),
    forget(deployId) {
      const run = runs.get(deployId)
      runs.delete(deployId)
      run?.wake()
    }
  }
}

function createRun(
  { deployId, projectId, output }: Pick<LiveRun, 'deployId' | 'projectId' | 'output'>,
  slices: Slices
): LiveRun {
  const stopping = new AbortController()
  const leaving = new AbortController()
  const suspending = new AbortController()
  const forced = new AbortController()
  const waiting = new Set<() => void>()
  let isReleasing = false
  let released = 0
  let wakes = 0
  let isOver = false
  let resolveFinished: (row: DeploymentRow) => void
  const finished = new Promise<DeploymentRow>(resolve => (resolveFinished = resolve))

  function wake(): void {
    wakes++
    if (!isReleasing) void release()
  }

  /** Wakes the followers in slices, because there may be thousands and other requests must not wait for all of them. */
  async function release(): Promise<void> {
    isReleasing = true
    while (released !== wakes) {
      released = wakes
      const batch = [...waiting]
      waiting.clear()
      for (const resume of batch) {
        await slices.turn()
        resume()
      }
    }
    isReleasing = false
  }

  return {
    deployId,
    projectId,
    output,
    finished,
    tail: null,
    asked: new Set(),
    signal: stopping.signal,
    stop(request) {
      stopping.abort(request)
      if (request.by === 'stop') forced.abort(request)
    },
    suspend: () => suspending.abort(),
    suspending: suspending.signal,
    forced: forced.signal,
    isHeld: false,
    window: null,
    leaving: leaving.signal,
    leave: () => leaving.abort(),
    wake,
    end(row) {
      isOver = true
      resolveFinished(row)
      wake()
    },
    get isOver() {
      return isOver
    },
    get wakes() {
      return wakes
    },
    async woken(since, signal) {
      signal?.throwIfAborted()
      if (wakes !== since) return
      let finish = (): void => {}
      await new Promise<void>(resolve => {
        finish = resolve
        waiting.add(finish)
        signal?.addEventListener('abort', finish)
      })
      waiting.delete(finish)
      signal?.removeEventListener('abort', finish)
      signal?.throwIfAborted()
    }
  }
}

/**
 * Yields blocks of stored lines from an offset on, then new ones until the deployment has finished. Followers at the
 * end share blocks in memory. One that is behind reads the file at its own offset, so a slow follower uses no memory.
 * Output of a background script after the end is in the file for later readers.
 */
export async function* followOutput(
  live: Live,
  { deployId, path, from, signal }: { deployId: string; path: string; from: number; signal: AbortSignal }
): AsyncGenerator<StoredBlock> {
  let offset = await checkedOffset(path, from)
  live.followers++
  try {
    for (;;) {
      const run = live.find(deployId)
      const isLast = run === undefined || run.isOver
      const wakes = run?.wakes ?? 0
      for (;;) {
        signal.throwIfAborted()
        const block = await nextBlock(live, { output: run?.output, path, offset })
        if (block === null) break
        yield block
        offset += block.bytes.length
      }
      if (isLast) return
      await run.woken(wakes, signal)
    }
  } finally {
    live.followers--
  }
}

async function nextBlock(
  { reads }: Live,
  { output, path, offset }: { output: Output | undefined; path: string; offset: number }
): Promise<StoredBlock | null> {
  const end = output?.recent.end ?? Infinity
  if (offset >= end) return null
  return output?.recent.at(offset) ?? reads.read(path, offset, end)
}

/** Reads output files for followers. A block that many followers want at the same time is read once. */
export type SharedReads = ReturnType<typeof createSharedReads>

/** Maximum number of parallel reads. It leaves threads of the pool for commits and other work. */
const readsAbreast = 2
/** Number of blocks kept in memory: followers that start together do not read in lockstep. */
const keptBlocks = 8

export function createSharedReads() {
  const reads = new Map<string, Promise<StoredBlock | null>>()
  const waiting: Array<() => void> = []
  let running = 0

  async function readInTurn(path: string, offset: number, end: number): Promise<StoredBlock | null> {
    if (running === readsAbreast) await new Promise<void>(resolve => waiting.push(resolve))
    else running++
    try {
      return await readBlock(path, offset, end)
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }

  function keep(key: string, block: Promise<StoredBlock | null>): void {
    reads.set(key, block)
    const forget = (): void => void reads.delete(key)
    // A missing block is not cached: the file may have grown, or be there again, at the next call.
    block.then(found => {
      if (found === null || found.isLost) forget()
    }, forget)
    const [oldest] = reads.keys()
    if (reads.size > keptBlocks && oldest !== undefined) reads.delete(oldest)
  }

  return {
    /** Returns the whole lines from `offset` on, none beyond `end`, or null if there are none. */
    read(path: string, offset: number, end: number): Promise<StoredBlock | null> {
      const key = `${offset} ${path}`
      const known = reads.get(key)
      if (known !== undefined) return known
      const block = readInTurn(path, offset, end)
      keep(key, block)
      return block
    }
  }
}

/** The time in which a deployment waits to be confirmed. */
export interface ConfirmWindow {
  /** When it ends. */
  readonly until: string
  /**
   * Confirms the deployment once `record`, which is begun in time, has resolved. Resolves with false if it is too late.
   * Rejects with the error of `record`.
   */
  confirm(record: () => Promise<void>): Promise<boolean>
}

/** A window that its deployment waits for. */
export interface OpenWindow extends ConfirmWindow {
  /** Resolves with whether the deployment was confirmed in time. Rejects with the reason of an abort. */
  decided(signal: AbortSignal): Promise<boolean>
}

/**
 * Opens a window. Its length is measured by the elapsed time, so a change of the machine's clock does not affect it.
 * `until` says when it ends by the clock now.
 */
export function openWindow({ ms, nowMs }: { ms: number; nowMs: number }): OpenWindow {
  let state: 'open' | 'confirmed' | 'over' = 'open'
  let wake = (): void => {}
  const confirmed = new Promise<void>(resolve => (wake = resolve))
  const recordings = new Set<Promise<void>>()
  return {
    until: new Date(nowMs + ms).toISOString(),
    async confirm(record) {
      if (state === 'over') return false
      const recording = record().finally(() => recordings.delete(recording))
      recordings.add(recording)
      await recording
      state = 'confirmed'
      wake()
      return true
    },
    async decided(signal) {
      const timer = new AbortController()
      const stop = (): void => timer.abort()
      signal.addEventListener('abort', stop)
      if (signal.aborted) stop()
      try {
        await Promise.race([confirmed, sleep(Math.max(0, ms), undefined, { signal: timer.signal })])
      } catch {
        // Aborted: a confirmation that came first still applies.
      } finally {
        stop()
        signal.removeEventListener('abort', stop)
        while (recordings.size > 0) await Promise.allSettled(recordings)
        if (state === 'open') state = 'over'
      }
      if (state !== 'confirmed') signal.throwIfAborted()
      return state === 'confirmed'
    }
  }
}
