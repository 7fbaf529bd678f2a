import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import type { HealthReport } from '../model/health.js'
import type { Store } from '../store/database.js'

export interface Probe {
  report(): Promise<HealthReport>
  /** Whether a small write into the data directory succeeds. */
  isWritable(): Promise<boolean>
}

export interface ProbeNeeds {
  store: Pick<Store, 'state' | 'write'>
  clock: Clock
  version: string
  startedAtMs: number
  /** The data directory. */
  directory: string
  /** Whether there is an admin token. */
  hasToken(): boolean
  /** Whether what a killed server left behind is still being put right. */
  isRecovering?: (() => boolean) | undefined
}

/** There is at most one write in this time, however often health is requested. */
const freshMs = 1000
/** A result of this age is still used while the next write is in progress, so frequent requests do not wait for the disk. */
const usableMs = 3000
/** A write that takes longer counts as failed, because health must be answered. */
const limitMs = 3000
/** A block of most file systems. */
const probeBytes = 4096

/** Whether the service works, in a word. */
export function createProbe({ store, clock, version, startedAtMs, directory, hasToken, isRecovering = () => false }: ProbeNeeds): Probe {
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

  function statusOf(isWritable: boolean): HealthReport['status'] {
    const isReachable = hasToken()
    hasStarted ||= isReachable
    if (!hasStarted || isRecovering()) return 'starting'
    return isReachable && isWritable && store.state().ok ? 'ok' : 'unhealthy'
  }

  return {
    isWritable,
    async report() {
      const status = statusOf(await isWritable())
      return { status, uptime: Math.floor((elapsedOf(clock) - startedAtMs) / 1000), version }
    }
  }
}

/** Creates a new file each time: overwriting an existing one needs no space. */
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

/** The store recovers with the next write that succeeds, and nobody else may write for hours. */
async function retryStore(store: Pick<Store, 'write'>): Promise<void> {
  await store.write(tx => void tx.run('UPDATE store SET writtenAt = writtenAt')).catch(() => {})
}

/** False if it takes longer. */
async function within(work: Promise<boolean>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>(resolve => (timer = setTimeout(() => resolve(false), ms)))
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
