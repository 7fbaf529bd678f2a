/*
 * A day of history: a row a minute. Rows wait in memory and ride with other writes: they are written in a minute in which
 * somebody else wrote, every hour, and when the server stops. So an idle server wakes its disk once an hour, and one that
 * is killed loses at most an hour of its history. Readers see the rows that wait, too.
 */
import { loadavg } from 'node:os'
import type { Clock } from '../base/clock.js'
import type { FinalStatus } from '../model/deployment.js'
import type { MachineFacts, MachineHistory, MachineMinute } from '../model/machine.js'
import type { Store } from '../store/database.js'
import { insertMachineMinutes, readMachineHistory, trimMachineHistory } from '../store/tables/machine-history.js'
import { percentsBetween, takeSample } from './cpu.js'
import { readDisk } from './disk.js'
import { readMemory } from './memory.js'

export interface History {
  /** Takes a row each minute from now on. */
  start(): void
  /** The last 24 hours; `stepMinutes` rows are put together into one. */
  read(stepMinutes: number): MachineHistory
  /** Writes what waits, and takes no more. */
  stop(): Promise<void>
}

/** Facts of the time since the call before. */
export type TakeFacts = () => Promise<MachineFacts>

export interface HistoryNeeds {
  store: Store
  clock: Clock
  take: TakeFacts
  log(message: string, error?: unknown): void
}

const minuteMs = 60_000
export const historyMinutes = 24 * 60
/** Rows that wait while nobody else writes. */
const maxWaiting = 60

export function createHistory({ store, clock, take, log }: HistoryNeeds): History {
  let waiting: MachineMinute[] = []
  let seenRevision = store.revision()
  let timer: NodeJS.Timeout | undefined

  /** The minute that ends about now, since timers may be early. */
  const minuteNow = (): number => Math.round(clock.now() / minuteMs) * minuteMs
  const kept = (nowMs: number) => ({ from: iso(nowMs - historyMinutes * minuteMs), to: iso(nowMs) })

  async function tick(): Promise<void> {
    try {
      const facts = await take()
      const at = iso(minuteNow() - minuteMs)
      waiting = [...waiting.filter(minute => minute.at !== at), { at, ...facts }]
      if (timer !== undefined && (store.revision() !== seenRevision || waiting.length >= maxWaiting)) await flush()
    } catch (error) {
      log('A minute of the history could not be kept', error)
    }
  }

  /** Rows that could not be written wait on, an hour of them at most. */
  async function flush(): Promise<void> {
    const minutes = waiting
    if (minutes.length === 0) return
    try {
      const written = store.write(tx => {
        insertMachineMinutes(tx, minutes)
        trimMachineHistory(tx, kept(minuteNow()))
      })
      // Its own write is no other's.
      seenRevision = store.revision()
      await written
      waiting = waiting.filter(minute => !minutes.includes(minute))
    } finally {
      waiting = waiting.slice(-maxWaiting)
    }
  }

  /** At the end of each minute of the clock; one that is set moves the next end, and nothing else. */
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
      // The first row counts from here.
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
      await flush().catch(error => log('The last minutes of the history could not be kept', error))
    }
  }
}

function iso(atMs: number): string {
  return new Date(atMs).toISOString()
}

/** Minutes of one step become one: means, and sums of what ended. */
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

/** Reads the machine; `ends` are the ends of deployments since the start of the server. */
export function createTakeFacts({ directory, ends }: { directory: string; ends(): Readonly<Record<FinalStatus, number>> }): TakeFacts {
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
