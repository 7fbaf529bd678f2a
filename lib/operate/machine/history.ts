/*
 * The history of the last 24 hours, one row per minute. Rows wait in memory and are written together with other writes,
 * or after an hour, or when the server stops. So an idle server writes once an hour, and a killed server loses at most
 * an hour of history. Readers also see the waiting rows.
 */

import { loadavg } from 'node:os'
import type { Clock } from '../../base/clock.js'
import {
  type DeploymentRow,
  deploymentStatuses,
  type DeploymentStep,
  type FinalStatus,
  type StepName,
  stepNames
} from '../../model/deployment.js'
import type { Heatmap, MachineFacts, MachineHistory, MachineMinute, SuccessRates } from '../../model/machine.js'
import type { Reader, Store } from '../../core/store/database.js'
import { insertMachineMinutes, readMachineHistory, trimMachineHistory } from '../../core/store/tables/server.js'
import type { ProjectScope } from '../../model/access.js'
import { among, choice, equalities, rowReader, text, where } from '../../core/store/tables/table.js'
import { countDeploymentsByDay, steps } from '../../core/store/tables/deployments.js'
import { percentsBetween, readMemory, takeSample, readDisk } from './resources.js'
import { successRate } from './health.js'

export type History = ReturnType<typeof createHistory>

/** Returns the figures of the time since the previous call. */
export type TakeFacts = () => Promise<MachineFacts>

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
export function createHistory({ store, clock, take, log }: HistoryNeeds) {
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
    waiting = []
    try {
      const written = store.write(tx => {
        insertMachineMinutes(tx, minutes)
        trimMachineHistory(tx, kept(minuteNow()))
      })
      // Ignore the own write when looking for writes of others.
      seenRevision = store.revision()
      await written
    } catch (error) {
      waiting = [...minutes, ...waiting].slice(-maxWaiting)
      throw error
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
    /** Begins to record a row each minute. */
    start(): void {
      // The first row begins here.
      void take().catch(() => {})
      schedule()
    },
    /** Returns the last 24 hours; each item combines `stepMinutes` rows. */
    read(stepMinutes: number): MachineHistory {
      const range = kept(minuteNow())
      const inMemory = waiting.filter(({ at }) => at >= range.from && at <= range.to)
      const known = new Map([...readMachineHistory(store, range), ...inMemory].map(minute => [minute.at, minute]))
      const minutes = [...known.values()].sort((a, b) => (a.at < b.at ? -1 : 1))
      return { stepMinutes, to: range.to, items: together(minutes, stepMinutes) }
    },
    /** Writes the waiting rows and stops recording. */
    async stop(): Promise<void> {
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

export interface StepDurations {
  name: StepName
  /** Number of times the step finished. */
  count: number
  /** @number */
  medianMs: number
  /** @number */
  p95Ms: number
  /** @number */
  maxMs: number
}

/** Durations of deployments and of their steps. */
export interface Durations {
  days: number
  projectId: string | null
  /** Number of deployments that were evaluated: the newest `maxCounted` of these days. */
  deployments: number
  steps: StepDurations[]
  /** The newest deployments, oldest first. */
  recent: Array<
    Pick<DeploymentRow, 'id' | 'startTime' | 'status'> & {
      steps: Array<{
        name: StepName
        /** @number */
        ms: number
      }>
    }
  >
}

/** Which deployments to evaluate. */
export interface DurationsQuery {
  projectId?: string | undefined
  /** The projects that the caller may see. */
  scope?: ProjectScope
  days: number
}

/** Statistics over the records of deployments. */
export type Stats = ReturnType<typeof createStats>

const dayMs = 86_400_000
const maxCounted = 1000
const maxRecent = 50

/** Creates the statistics of the last days, including today. */
export function createStats({ store, clock }: { store: Reader; clock: { now(): number } }) {
  return {
    heatmap(days: number, scope?: ProjectScope): Heatmap {
      const cells = countByDay(store, datesUpTo(clock.now(), days), scope).map(({ date, count, failed }) => ({
        date,
        count,
        failed
      }))
      return { days, cells }
    },

    successRates(days: number, scope?: ProjectScope): SuccessRates {
      const points = countByDay(store, datesUpTo(clock.now(), days), scope).map(({ date, success, failed }) => {
        return { date, success, failed, rate: successRate(success, failed) }
      })
      return { days, points }
    },

    durations({ projectId, scope, days }: DurationsQuery): Durations {
      const [since = ''] = datesUpTo(clock.now(), days)
      const timed = readSteps(store, since, { projectId, scope }).map(({ steps, ...row }) => ({
        ...row,
        steps: timesOf(steps)
      }))
      return {
        days,
        projectId: projectId ?? null,
        deployments: timed.length,
        steps: summarise(timed.flatMap(({ steps }) => steps)),
        recent: timed.slice(0, maxRecent).reverse()
      }
    }
  }
}

/** Returns `days` dates (UTC) up to today, oldest first. */
export function datesUpTo(nowMs: number, days: number): string[] {
  return Array.from({ length: days }, (_, index) => dateOf(nowMs - (days - 1 - index) * dayMs))
}

function dateOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

interface DayCounts {
  date: string
  count: number
  success: number
  failed: number
}

function countByDay(store: Reader, dates: string[], scope: ProjectScope): DayCounts[] {
  const found = new Map(dates.map(date => [date, { date, count: 0, success: 0, failed: 0 }]))
  for (const { date, status, deployments } of countDeploymentsByDay(store, dates[0] ?? '', scope)) {
    const day = found.get(date)
    if (day === undefined) continue // recorded while the clock was ahead
    day.count += deployments
    if (status === 'success' || status === 'failed') day[status] += deployments
  }
  return [...found.values()]
}

type StepsRow = Pick<DeploymentRow, 'id' | 'startTime' | 'status' | 'steps'>

const readStepsRow = rowReader<StepsRow>('deployments', {
  id: text,
  startTime: text,
  status: choice(deploymentStatuses),
  steps
})

/** Reads the steps of finished deployments, newest first. */
function readSteps(
  store: Reader,
  since: string,
  { projectId, scope }: Pick<DurationsQuery, 'projectId' | 'scope'>
): StepsRow[] {
  const { conditions, values } = among(equalities({ projectId }), 'projectId', scope)
  const finished = ['startTime >= ?', `status IN ('success', 'failed')`]
  const sql = `SELECT id, startTime, status, steps FROM deployments ${where([...finished, ...conditions])}
    ORDER BY orderedAt DESC, position DESC LIMIT ?`
  return store.all(sql, since, ...values, maxCounted).map(readStepsRow)
}

/** Returns the durations of the finished steps, failed ones included. */
function timesOf(steps: readonly DeploymentStep[]): Array<{ name: StepName; ms: number }> {
  return steps.flatMap(({ name, status, startedAt, endedAt }) => {
    if (status === 'skipped' || endedAt === null) return []
    return [{ name, ms: Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) }]
  })
}

function summarise(times: ReadonlyArray<{ name: StepName; ms: number }>): StepDurations[] {
  return stepNames.flatMap(name => {
    const sorted = times
      .filter(time => time.name === name)
      .map(({ ms }) => ms)
      .sort((a, b) => a - b)
    if (sorted.length === 0) return []
    const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] as number
    return [{ name, count: sorted.length, medianMs: at(0.5), p95Ms: at(0.95), maxMs: at(1) }]
  })
}
