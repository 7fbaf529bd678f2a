import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

export interface CpuPercents {
  /** Of all cores of the machine together: 100 is everything. */
  host: number
  /** Of one core, as `top` counts: this process, all its threads. */
  process: number
}

export interface CpuMeter {
  /** Over the time since the last reading; the first one, or one after a long silence, takes `firstIntervalMs`. */
  read(): Promise<CpuPercents>
}

/** Counters that only grow. */
interface Sample {
  atMs: number
  idleMs: number
  totalMs: number
  processMs: number
}

const firstIntervalMs = 250
/** Readings closer together get the same answer: a kernel tick is 10 ms, and shorter intervals are noise. */
const shortestIntervalMs = 500
/** A longer interval would answer what was, not what is. */
const longestIntervalMs = 30_000

/**
 * CPU percents over real intervals. Nothing runs between readings: each is the difference to the sample of the one
 * before, so a panel that asks every five seconds gets the mean of five seconds, and a server nobody watches does nothing.
 */
export function createCpuMeter(sample: () => Sample = takeSample): CpuMeter {
  let last: Sample | undefined
  let answer: CpuPercents | undefined
  let measuring: Promise<CpuPercents> | undefined

  async function measure(): Promise<CpuPercents> {
    let from = last
    let to = sample()
    if (from === undefined || to.atMs - from.atMs > longestIntervalMs) {
      from = to
      await sleep(firstIntervalMs)
      to = sample()
    } else if (answer !== undefined && to.atMs - from.atMs < shortestIntervalMs) return answer
    last = to
    answer = percentsBetween(from, to)
    return answer
  }

  return {
    read() {
      measuring ??= measure().finally(() => (measuring = undefined))
      return measuring
    }
  }
}

/** Pure. */
export function percentsBetween(from: Sample, to: Sample): CpuPercents {
  const totalMs = to.totalMs - from.totalMs
  const idleMs = to.idleMs - from.idleMs
  const wallMs = to.atMs - from.atMs
  return {
    host: totalMs <= 0 ? 0 : percent(Math.min(1, Math.max(0, 1 - idleMs / totalMs))),
    process: wallMs <= 0 ? 0 : percent(Math.max(0, (to.processMs - from.processMs) / wallMs))
  }
}

/** The counters as they are now. */
export function takeSample(): Sample {
  let idleMs = 0
  let totalMs = 0
  for (const { times } of cpus()) {
    idleMs += times.idle
    totalMs += times.user + times.nice + times.sys + times.idle + times.irq
  }
  const { user, system } = process.cpuUsage()
  return { atMs: performance.now(), idleMs, totalMs, processMs: (user + system) / 1000 }
}

function percent(share: number): number {
  return Math.round(share * 1000) / 10
}
