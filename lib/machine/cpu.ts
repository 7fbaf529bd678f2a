import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/** CPU use in percent. */
export interface CpuPercents {
  /** Use of all cores of the machine together; 100 is the maximum. */
  host: number
  /** Use of this process with all its threads; 100 is one core, as in `top`. */
  process: number
}

/** Measures CPU use between readings. */
export interface CpuMeter {
  /** Returns the mean since the last reading. The first reading, or one after a long pause, takes `firstIntervalMs`. */
  read(): Promise<CpuPercents>
}

/** Counters of the system, which only grow. */
interface Sample {
  atMs: number
  idleMs: number
  totalMs: number
  processMs: number
}

const firstIntervalMs = 250
/** Readings closer together get the cached answer: a kernel tick is 10 ms, so shorter intervals are noise. */
const shortestIntervalMs = 500
/** After a longer interval the mean would describe the past. */
const longestIntervalMs = 30_000

/**
 * Creates a meter. Nothing runs between readings: each reading is the difference to the previous sample. A panel that
 * asks every five seconds gets the mean of five seconds.
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

/** Returns CPU use between two samples. Pure. */
export function percentsBetween(from: Sample, to: Sample): CpuPercents {
  const totalMs = to.totalMs - from.totalMs
  const idleMs = to.idleMs - from.idleMs
  const wallMs = to.atMs - from.atMs
  return {
    host: totalMs <= 0 ? 0 : percent(Math.min(1, Math.max(0, 1 - idleMs / totalMs))),
    process: wallMs <= 0 ? 0 : percent(Math.max(0, (to.processMs - from.processMs) / wallMs))
  }
}

/** Reads the counters. */
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
