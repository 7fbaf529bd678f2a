import { createSlices, type Slices } from '../base/slices.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { StopRequest } from './failure.js'
import type { Output } from './output.js'
import { createSharedReads, type SharedReads } from './shared-reads.js'
import { checkedOffset, type StoredBlock } from './stored-output.js'

/** A deployment that is queued or running, or whose script in the background still prints. */
export interface LiveRun {
  readonly deployId: string
  readonly projectId: string
  readonly output: Output
  readonly signal: AbortSignal
  /** Asks it to stop; the first request wins. */
  stop(request: StopRequest): void
  /** Its output grew: wakes whoever follows. */
  wake(): void
  readonly wakes: number
  /** Resolves when it was woken, or ended, after `since` was read from `wakes`; throws the signal's reason. */
  woken(since: number, signal: AbortSignal): Promise<void>
  /** Its record is final. */
  end(row: DeploymentRow): void
  readonly isOver: boolean
  readonly finished: Promise<DeploymentRow>
  /** Its script in the background, if one goes on; resolves when that has ended. */
  tail: Promise<void> | null
  /** Leaves that script to itself. */
  leave(): void
  /** Aborted by that. */
  readonly leaving: AbortSignal
}

export interface Live {
  /** Of the files of outputs, live or not. */
  readonly reads: SharedReads
  /** How many follow an output now. */
  followers: number
  begin(facts: Pick<LiveRun, 'deployId' | 'projectId' | 'output'>): LiveRun
  all(): LiveRun[]
  find(deployId: string): LiveRun | undefined
  hasRunning(projectId: string): boolean
  /** Nothing of it goes on any more, or it never came to be: whoever follows reads to the end and is done. */
  forget(deployId: string): void
}

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
  { deployId, projectId, output }: Pick<LiveRun, 'deployId' | 'projectId' | 'output'>, slices: Slices
): LiveRun {
  const stopping = new AbortController()
  const leaving = new AbortController()
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

  /** Wakes the followers in slices: thousands may follow, and other requests need their turn in between. */
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
    signal: stopping.signal,
    stop: request => stopping.abort(request),
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
      signal.throwIfAborted()
      if (wakes !== since) return
      let finish = (): void => {}
      await new Promise<void>(resolve => {
        finish = resolve
        waiting.add(finish)
        signal.addEventListener('abort', finish)
      })
      waiting.delete(finish)
      signal.removeEventListener('abort', finish)
      signal.throwIfAborted()
    }
  }
}

/**
 * The stored lines from an offset on, in blocks, then, while the deployment goes on, those that come. At the end all who
 * follow are given the same blocks, from memory; one that is behind reads the file from where it is, so a slow follower
 * holds nothing. What a script in the background prints after the end is in the file for the next reader.
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
  { reads }: Live, { output, path, offset }: { output: Output | undefined; path: string; offset: number }
): Promise<StoredBlock | null> {
  const end = output?.recent.end ?? Infinity
  if (offset >= end) return null
  return output?.recent.at(offset) ?? reads.read(path, offset, end)
}
