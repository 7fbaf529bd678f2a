import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, elapsedOf } from '../../base/clock.js'
import { isCutOff } from '../../base/shared/api.js'
import type { Store } from '../../core/store/database.js'
import type { ClusterHealth, HealthReport, HubState } from '../../model/health.js'

/*
 * The probe of GET /api/health. It is a file of its own, because a start needs no other part of the health report before
 * it listens (test/bench/start).
 */

/** The short health report. */
export type Probe = ReturnType<typeof createProbe>

export interface ProbeNeeds {
  store: Pick<Store, 'state' | 'write'>
  clock: Clock
  version: string
  startedAtMs: number
  /** The data directory. */
  directory: string
  /** Whether there is an admin token. */
  hasToken(): boolean
  /** The state of this hub; undefined: the server is not a hub of a cluster. */
  hub?: (() => HubState) | undefined
  /** Whether the recovery after a killed server is still in progress. */
  isRecovering?: (() => boolean) | undefined
}

/** Minimum time between two writes, however often health is requested. */
const freshMs = 1000
/** Maximum age of a result while the next write is in progress, so frequent requests do not wait for the disk. */
const usableMs = 3000
/** A write that takes longer has failed, because a health request must be answered. */
const limitMs = 3000
/** The block size of most file systems. */
const probeBytes = 4096

export function createProbe({
  store,
  clock,
  version,
  startedAtMs,
  directory,
  hasToken,
  hub,
  isRecovering = () => false
}: ProbeNeeds) {
  const path = join(directory, 'health.probe')
  let known: { isWritable: boolean; atMs: number } | null = null
  let looking: Promise<boolean> | null = null
  let hasStarted = false

  async function look(): Promise<boolean> {
    const isWritable = await tryWrite(path)
    if (isWritable && !store.state().ok) await retryStore(store)
    known = { isWritable, atMs: elapsedOf(clock) }
    return isWritable
  }

  async function isWritable(): Promise<boolean> {
    const ageMs = known === null ? Infinity : elapsedOf(clock) - known.atMs
    if (ageMs >= freshMs) looking ??= look().finally(() => void (looking = null))
    return known !== null && ageMs < usableMs ? known.isWritable : within(looking as Promise<boolean>, limitMs)
  }

  function statusOf(isWritable: boolean, state: HubState | undefined): HealthReport['status'] {
    const isReachable = hasToken()
    hasStarted ||= isReachable
    if (!hasStarted || isRecovering()) return 'starting'
    if (!isReachable || !isWritable || !store.state().ok) return 'unhealthy'
    return state !== undefined && isCutOff(state) ? 'cut_off' : 'ok'
  }

  return {
    /** Whether a small write to the data directory succeeds. */
    isWritable,

    /** Forgets the last result: the next request waits for a write. */
    forget(): void {
      known = null
    },

    /** Returns the status, the uptime in seconds and the version. */
    async report(): Promise<HealthReport> {
      const [canWrite, state] = [await isWritable(), hub?.()]
      return {
        status: statusOf(canWrite, state),
        uptime: Math.floor((elapsedOf(clock) - startedAtMs) / 1000),
        version,
        ...(state !== undefined && { cluster: healthOf(state) })
      }
    }
  }
}

function healthOf({ role, staleSeconds, reason }: HubState): ClusterHealth {
  return { role, staleSeconds, ...(reason !== null && { reason }) }
}

/** Creates a new file each time, because overwriting an existing one needs no space. */
async function tryWrite(path: string): Promise<boolean> {
  try {
    await rm(path, { force: true })
    await writeFile(path, Buffer.alloc(probeBytes), { flag: 'wx', mode: 0o600 })
    return true
  } catch {
    return false
  } finally {
    await rm(path, { force: true }).catch(() => {})
  }
}

/** Writes to the store, which recovers with the next successful write. Other writes may be hours away. */
async function retryStore(store: Pick<Store, 'write'>): Promise<void> {
  await store.write(tx => void tx.run('UPDATE store SET writtenAt = writtenAt')).catch(() => {})
}

/** Returns the result, or false after `ms` milliseconds. */
async function within(work: Promise<boolean>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>(resolve => (timer = setTimeout(() => resolve(false), ms)))
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
