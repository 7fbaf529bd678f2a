/*
 * Reads every kept archive once a week, in a thread, and only while nothing is deployed or uploaded: a release whose archive
 * is damaged is found before somebody needs it. While something is damaged it looks once a day, so that it is soon known
 * as mended. The result is in a file of the data directory: each hub of a cluster has archives of its own.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, instantOf } from '../base/clock.js'
import type { Home } from '../base/config/home.js'
import { replaceFile } from '../base/files.js'
import { startThread } from '../base/workers.js'
import type { DamageReport, DamageTask } from '../core/archive/damage.js'
import type { Store } from '../core/store/database.js'
import { findDeployment, unfinishedDeployments } from '../core/store/tables/deployments.js'
import type { ArchiveHealth } from '../model/health.js'

const dayMs = 24 * 60 * 60_000
const everyMs = 7 * dayMs
const lookMs = 10 * 60_000
const pauseMs = 500
const secretMode = 0o600

export type ArchiveCheck = ReturnType<typeof createArchiveCheck>

export interface ArchiveCheckNeeds {
  store: Store
  clock: Clock
  home: Pick<Home, 'directory' | 'deployments'>
  /** Number of uploads in progress. */
  uploads(): number
  /** Gets the damaged releases, also if there are none. */
  found(damaged: string[]): Promise<void>
  log(message: string, error?: unknown): void
}

/** Creates the check, with the result of the last one. */
export function createArchiveCheck({ store, clock, home, uploads, found, log }: ArchiveCheckNeeds) {
  const path = join(home.directory, 'archive-check.json')
  const stopped = new AbortController()
  let last = readLast(path)
  let timer: NodeJS.Timeout | undefined
  let checking: Promise<void> | null = null

  const isBusy = (): boolean =>
    uploads() > 0 ||
    unfinishedDeployments(store).some(({ status, heldFor }) => status === 'running' && heldFor === null)

  function isDue(): boolean {
    const waitMs = last.damaged.length > 0 ? dayMs : everyMs
    // A clock that was set back does not delay it.
    return last.checkedAt === null || Math.abs(clock.now() - Date.parse(last.checkedAt)) >= waitMs
  }

  /** Returns the result of the last check, without releases whose archives are gone. */
  function state(): ArchiveHealth {
    return { ...last, damaged: last.damaged.filter(id => findDeployment(store, id)?.hasArtifact === true) }
  }

  async function readAll(): Promise<DamageReport> {
    const isPaused = new Int32Array(new SharedArrayBuffer(4))
    const module = new URL('../core/archive/damage-worker.js', import.meta.url)
    const thread = startThread<DamageTask, DamageReport>({ module })
    const adjust = (): void => {
      Atomics.store(isPaused, 0, isBusy() ? 1 : 0)
      Atomics.notify(isPaused, 0)
    }
    const pausing = setInterval(adjust, pauseMs).unref()
    const end = (): void => void thread.terminate()
    stopped.signal.addEventListener('abort', end)
    try {
      adjust()
      return await thread.ask({ deployments: home.deployments, isPaused })
    } finally {
      clearInterval(pausing)
      stopped.signal.removeEventListener('abort', end)
      await thread.terminate()
    }
  }

  async function check(): Promise<void> {
    const { damages } = await readAll()
    for (const { message } of damages) log(message)
    last = { checkedAt: instantOf(clock), damaged: [...new Set(damages.flatMap(({ releases }) => releases))] }
  }

  async function lookNow(): Promise<void> {
    try {
      const isNew = isDue()
      if (isNew) await check()
      if (stopped.signal.aborted) return
      await found(state().damaged)
      if (isNew) await replaceFile(path, `${JSON.stringify(last)}\n`, secretMode)
    } catch (error) {
      if (!stopped.signal.aborted) log('Cannot check the kept archives', error)
    }
  }

  /** Checks if it is time, and reports what is damaged. Looks do not overlap. Never rejects. */
  function look(): Promise<void> {
    return (checking ??= lookNow().finally(() => (checking = null)))
  }

  return {
    state,
    look,

    /** Looks every ten minutes. The first look is later than the start, which has other work. */
    start(): void {
      timer = setInterval(() => void look(), lookMs).unref()
    },

    /** Ends a check in progress. The next start begins it again. */
    async stop(): Promise<void> {
      clearInterval(timer)
      stopped.abort()
      await checking
    }
  }
}

/** Returns the result of the last check. A file that is missing or damaged means that there was none. */
function readLast(path: string): ArchiveHealth {
  try {
    const { checkedAt, damaged } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Record<string, unknown>>
    if (typeof checkedAt === 'string' && !Number.isNaN(Date.parse(checkedAt)) && Array.isArray(damaged))
      return { checkedAt, damaged: damaged.filter(id => typeof id === 'string') }
  } catch {}
  return { checkedAt: null, damaged: [] }
}
