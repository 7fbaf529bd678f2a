/*
 * The history of the last 24 hours, one row per minute. Rows wait in memory and are written together with other writes,
 * or after an hour, or when the server stops. So an idle server writes once an hour, and a killed server loses at most
 * an hour of history. Readers also see the waiting rows.
 */
import { loadavg } from 'node:os'
import type { Clock } from '../base/clock.js'
import type { FinalStatus } from '../model/deployment.js'
import type { MachineFacts, MachineHistory, MachineMinute } from '../model/machine.js'
import type { Store } from '../store/database.js'
import { insertMachineMinutes, readMachineHistory, trimMachineHistory } from '../store/tables/server.js'
import { percentsBetween, takeSample } from './cpu.js'
import { readDisk } from './disk.js'
import { readMemory } from './memory.js'

/** The history of the machine and of deployments. */
export interface History {
  /** Begins to record a row each minute. */
  start(): void
  /** Returns the last 24 hours; each item combines `stepMinutes` rows. */
  read(stepMinutes: number): MachineHistory
  /** Writes the waiting rows and stops recording. */
  stop(): Promise<void>
}

/** Returns the figures of the time since the previous call. */
export type TakeFacts = () => Promise<MachineFacts>

/** What `createHistory` needs. */
export interface HistoryNeeds {
  store: Store
  clock: Clock
  take: TakeFacts
  log(message: string, error?: unknown): void
}

const minuteMs = 60_000
/** Length of the history in minutes. */
export const historyMinutes = 24 * 60
/** Maximum number of rows that wait for another write. */
const maxWaiting = 60

/** Creates the history. `start` begins recording. */
export function createHistory({ store, clock, take, log }: HistoryNeeds): History {
  let waiting: MachineMinute[] = []
  let seenRevision = store.revision()
  let timer: NodeJS.Timeout | undefined

  /** Returns the minute boundary nearest to now, because timers may fire early. */
  const minuteNow = (): number => Math.round(clock.now() / minuteMs) * minuteMs
  const kept = (nowMs: number) => ({ from: iso(nowMs - historyMinutes * minuteMs), to: iso(nowMs) })

  async function tick(): Promise<void> {
    try {
      const facts = await take()
      const at = iso(minuteNow() - minuteMs)
      waiting = [...waiting.filter(minute => minute.at !== at), { at, ...facts }]
      if (timer !== undefined && (store.revision() !== seenRevision || waiting.length >= maxWaiting)) await flush()
    } catch (error) {
      log('A minute of the history could not be stored', error)
    }
  }

  /** Writes the waiting rows. After a failure they keep waiting, at most one hour of them. */
  async function flush(): Promise<void> {
    const minutes = waiting
    if (minutes.length === 0) return
    try {
      const written = store.write(tx => {
        insertMachineMinutes(tx, minutes)
        trimMachineHistory(tx, kept(minuteNow()))
      })
      // Ignore the own write when looking for writes of others.
      seenRevision = store.revision()
      await written
      waiting = waiting.filter(minute => !minutes.includes(minute))
    } finally {
      waiting = waiting.slice(-maxWaiting)
    }
  }

  /** Schedules the end of the current minute. If the clock is set, only the next end moves. */
  function schedule(): void {
    const restMs = minuteMs - (((clock.now() % minuteMs) + minuteMs) % minuteMs)
    const end = (): void => {
      schedule()
      void tick()
    }
    timer = setTimeout(end, restMs < 1_000 ? restMs + minuteMs : restMs).unref()
  }

  return {
    start() {
      // The first row begins here.
      void take().catch(() => {})
      schedule()
    },
    read(stepMinutes) {
      const range = kept(minuteNow())
      const inMemory = waiting.filter(({ at }) => at >= range.from && at <= range.to)
      const known = new Map([...readMachineHistory(store, range), ...inMemory].map(minute => [minute.at, minute]))
      const minutes = [...known.values()].sort((a, b) => (a.at < b.at ? -1 : 1))
      return { stepMinutes, to: range.to, items: together(minutes, stepMinutes) }
    },
    async stop() {
      clearTimeout(timer)
      timer = undefined
      await flush().catch(error => log('The last minutes of the history could not be stored', error))
    }
  }
}

function iso(atMs: number): string {
  return new Date(atMs).toISOString()
}

/** Combines the minutes of each step: means of the figures, sums of the finished deployments. */
function together(minutes: readonly MachineMinute[], stepMinutes: number): MachineMinute[] {
  if (stepMinutes === 1) return [...minutes]
  const steps = new Map<string, MachineMinute[]>()
  const stepMs = stepMinutes * minuteMs
  for (const minute of minutes) {
    const at = iso(Math.floor(Date.parse(minute.at) / stepMs) * stepMs)
    const step = steps.get(at)
    if (step === undefined) steps.set(at, [minute])
    else step.push(minute)
  }
  return [...steps].map(([at, of]) => ({ at, ...meanOf(of) }))
}

function meanOf(minutes: readonly MachineMinute[]): MachineFacts {
  const sum = (key: keyof MachineFacts): number => minutes.reduce((sum, minute) => sum + (minute[key] ?? 0), 0)
  const mean = (key: keyof MachineFacts): number => Math.round((sum(key) / minutes.length) * 100) / 100
  const last = minutes.at(-1) as MachineMinute
  return {
    cpuPercent: mean('cpuPercent'),
    processCpuPercent: mean('processCpuPercent'),
    memoryUsedBytes: Math.round(mean('memoryUsedBytes')),
    memoryTotalBytes: last.memoryTotalBytes,
    memoryRssBytes: Math.round(mean('memoryRssBytes')),
    diskUsedPercent: last.diskUsedPercent,
    diskFreeBytes: last.diskFreeBytes,
    load: mean('load'),
    succeeded: sum('succeeded'),
    failed: sum('failed')
  }
}

/**
 * Creates the function that reads the machine. `ends` returns the finished deployments since the start of the server.
 */
export function createTakeFacts({
  directory,
  ends
}: {
  directory: string
  ends(): Readonly<Record<FinalStatus, number>>
}): TakeFacts {
  let before = takeSample()
  let endsBefore = ends()
  return async () => {
    const [memory, disk] = await Promise.all([readMemory(), readDisk(directory)])
    const [sample, endsNow] = [takeSample(), ends()]
    const percents = percentsBetween(before, sample)
    const [succeeded, failed] = [endsNow.success - endsBefore.success, endsNow.failed - endsBefore.failed]
    before = sample
    endsBefore = endsNow
    return {
      cpuPercent: percents.host,
      processCpuPercent: percents.process,
      memoryUsedBytes: memory.usedBytes,
      memoryTotalBytes: memory.totalBytes,
      memoryRssBytes: process.memoryUsage.rss(),
      diskUsedPercent: disk.percentUsed,
      diskFreeBytes: disk.freeBytes,
      load: Math.round((loadavg()[0] ?? 0) * 100) / 100,
      succeeded,
      failed
    }
  }
}
