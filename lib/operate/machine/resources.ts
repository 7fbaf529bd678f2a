import { arch, cpus, freemem, hostname, loadavg, platform, totalmem, uptime } from 'node:os'
import fs, { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IntervalHistogram } from 'node:perf_hooks'
import { type Clock, instantOf } from '../../base/clock.js'
import { bunVersion, describeRuntime } from '../../base/runtime.js'
import type { ContainerFigures, MemoryFigures, ResourceSnapshot, DiskFigures } from '../../model/machine.js'
import { runProcess } from '../../core/proc/run.js'

/** The resources of the machine (§2.11). */
export type Resources = ReturnType<typeof createResources>

/** Creates the reader of the machine. It reads on request and does nothing in between. */
export function createResources(needs: { clock: Clock; cpu: CpuMeter; directory: string }) {
  const { clock, cpu, directory } = needs

  return {
    async snapshot(): Promise<ResourceSnapshot> {
      const [percents, memory, disk, container] = await Promise.all([
        cpu.read(),
        readMemory(),
        readDisk(directory),
        readContainer()
      ])
      const { rss, heapUsed } = process.memoryUsage()
      const runtime = describeRuntime()
      return {
        collectedAt: instantOf(clock),
        host: describeHost(),
        cpu: { percent: percents.host },
        memory,
        disk,
        process: {
          pid: process.pid,
          runtime: runtime.name,
          runtimeVersion: runtime.version,
          uptimeSec: Math.floor(process.uptime()),
          cpuPercent: percents.process,
          memoryRssBytes: rss,
          memoryHeapUsedBytes: heapUsed
        },
        container
      }
    }
  }
}

function describeHost(): ResourceSnapshot['host'] {
  const cores = cpus()
  return {
    hostname: hostname(),
    platform: platform(),
    arch: arch(),
    cpuModel: cores[0]?.model.trim() ?? '',
    cpuCount: cores.length,
    loadAvg: loadavg(),
    uptimeSec: Math.floor(uptime())
  }
}

/**
 * Returns the limits and the memory use of the container, or null if there is no container or no limit. In a container
 * the root of the mounted hierarchy is its own group. A systemd unit with limits has no namespace of its own: its group
 * is the path that /proc/self/cgroup names. Tests pass other paths as `root` and `self`.
 */
export async function readContainer({
  root = '/sys/fs/cgroup',
  self = '/proc/self/cgroup'
} = {}): Promise<ContainerFigures | null> {
  const own = /^0::(\/.*)$/m.exec(await text(self))?.[1]
  if (own === undefined) return null
  const group = (await text(join(root, own, 'cgroup.controllers'))) === '' ? root : join(root, own)
  const read = (name: string): Promise<string> => text(join(group, name))
  const [memoryMax, memoryCurrent] = [await read('memory.max'), await read('memory.current')]
  const [memoryStat, cpuMax] = [await read('memory.stat'), await read('cpu.max')]
  const memoryLimitBytes = count(memoryMax)
  const cpuLimit = parseCpuMax(cpuMax)
  if (memoryLimitBytes === null && cpuLimit === null) return null
  const current = count(memoryCurrent)
  const droppable = Number(/^inactive_file (\d+)$/m.exec(memoryStat)?.[1] ?? 0)
  return { memoryLimitBytes, memoryUsedBytes: current === null ? null : Math.max(0, current - droppable), cpuLimit }
}

/**
 * Converts `<quota> <period>` (microseconds) to cores, and `max <period>` to null (cgroup-v2.rst of Linux, cpu.max).
 */
export function parseCpuMax(line: string): number | null {
  const [, quota, period] = /^(\d+) (\d+)\s*$/.exec(line) ?? []
  if (quota === undefined || period === undefined || Number(period) === 0) return null
  return Math.round((Number(quota) / Number(period)) * 100) / 100
}

/** Returns a number of bytes, or null for `max` and for a missing file. */
function count(line: string): number | null {
  return /^\d+\s*$/.test(line) ? Number(line) : null
}

async function text(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '')
}

/** CPU use in percent. */
export interface CpuPercents {
  /** Use of all cores of the machine together; 100 is the maximum. */
  host: number
  /** Use of this process with all its threads; 100 is one core, as in `top`. */
  process: number
}

/** Measures CPU use between readings. */
export type CpuMeter = ReturnType<typeof createCpuMeter>

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
export function createCpuMeter(sample: () => Sample = takeSample) {
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
    /** Returns the mean since the last reading. The first reading, or one after a long pause, takes `firstIntervalMs`. */
    read(): Promise<CpuPercents> {
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

interface Measured {
  totalBytes: number
  freeBytes: number
  /** Null if the system reports free memory only. */
  availableBytes: number | null
}

const vmStatLimitMs = 2000

/** Returns the memory of the machine (§2.11). Used memory is the total minus the available memory. */
export async function readMemory(): Promise<MemoryFigures> {
  return memoryFigures(await measure())
}

async function measure(): Promise<Measured> {
  const unknown = { totalBytes: totalmem(), freeBytes: freemem(), availableBytes: null }
  if (process.platform === 'darwin') return { ...unknown, availableBytes: parseVmStat(await vmStat()) }
  if (process.platform !== 'linux') return unknown
  // Not os.freemem(): on Linux that is MemAvailable from Node 20 on.
  return parseMeminfo(await readFile('/proc/meminfo', 'utf8').catch(() => '')) ?? unknown
}

/** Returns the figures of §2.11. The available memory is at most the total. Pure. */
export function memoryFigures({ totalBytes, freeBytes, availableBytes }: Measured): MemoryFigures {
  const available = Math.min(availableBytes ?? freeBytes, totalBytes)
  const usedBytes = totalBytes - available
  return { totalBytes, freeBytes, availableBytes: available, usedBytes, percentUsed: percentOf(usedBytes, totalBytes) }
}

/**
 * Reads the text of /proc/meminfo (proc_meminfo(5)). Undefined without MemTotal or MemFree. MemAvailable exists since
 * Linux 3.14.
 */
export function parseMeminfo(text: string): Measured | undefined {
  const bytes = (name: string): number | null => {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)
    return found === null ? null : Number(found[1]) * 1024
  }
  const totalBytes = bytes('MemTotal')
  const freeBytes = bytes('MemFree')
  if (totalBytes === null || freeBytes === null) return undefined
  return { totalBytes, freeBytes, availableBytes: bytes('MemAvailable') }
}

/**
 * Reads the output of `vm_stat` (macOS) and returns the available bytes: free, speculative and inactive pages.
 * Purgeable pages are part of these. Null if the text has another form.
 */
export function parseVmStat(text: string): number | null {
  const pageBytes = Number(/page size of (\d+) bytes/.exec(text)?.[1])
  const pages = ['free', 'inactive', 'speculative'].map(kind =>
    Number(new RegExp(`^Pages ${kind}:\\s+(\\d+)\\.`, 'm').exec(text)?.[1])
  )
  const total = pages.reduce((sum, count) => sum + count, 0) * pageBytes
  return Number.isFinite(total) ? total : null
}

async function vmStat(): Promise<string> {
  const lines: string[] = []
  await runProcess({
    command: ['/usr/bin/vm_stat'],
    cwd: '/',
    env: { LC_ALL: 'C' },
    timeoutMs: vmStatLimitMs,
    onLine: line => void lines.push(line)
  })
  return lines.join('\n')
}

/** Delays of the event loop since the previous reading, in seconds. `sum` and `count` cover the whole measurement. */
export interface LoopDelay {
  quantiles: Array<{ quantile: number; value: number }>
  max: number
  sum: number
  count: number
}

export type LoopDelayMeter = ReturnType<typeof createLoopDelayMeter>

/** Interval of the measuring timer. It costs 0.2 % of a core, so it runs only while somebody reads. */
const resolutionMs = 20
const forgetMs = 5 * 60_000
const quantiles = [0.5, 0.9, 0.99]
const nanoseconds = 1e9

/** Creates a meter that stops measuring after `idleMs` without a reading. */
export function createLoopDelayMeter({ idleMs = forgetMs } = {}) {
  if (bunVersion !== undefined) return { read: () => null, stop() {} }
  let histogram: IntervalHistogram | undefined
  let isOn = false
  let sum = 0
  let count = 0
  let idle: NodeJS.Timeout | undefined

  /** Starts measuring. The module takes half a megabyte, so it is loaded when it is needed. */
  async function begin(): Promise<void> {
    const { monitorEventLoopDelay } = await import('node:perf_hooks')
    histogram ??= monitorEventLoopDelay({ resolution: resolutionMs })
    if (!isOn) return
    histogram.reset()
    histogram.enable()
  }

  function stop(): void {
    clearTimeout(idle)
    idle = undefined
    histogram?.disable()
    isOn = false
  }

  /** Returns a delay in seconds. The recorded value is the time between two wakes, which includes the resolution. */
  const delayOf = (ns: number): number => Math.max(0, ns / nanoseconds - resolutionMs / 1000)

  return {
    /** Returns the delays. The first call starts measuring and returns null, as does a runtime that cannot measure. */
    read(): LoopDelay | null {
      idle ??= setTimeout(stop, idleMs).unref()
      idle.refresh()
      if (!isOn) {
        isOn = true
        void begin()
        return null
      }
      if (histogram === undefined) return null
      const measured = histogram
      const recorded = Number(measured.count)
      // Measuring continues: a reset would lose the current interval.
      if (recorded === 0) return null
      const read = {
        quantiles: quantiles.map(quantile => ({ quantile, value: delayOf(measured.percentile(quantile * 100)) })),
        max: delayOf(measured.max),
        sum: (sum += delayOf(measured.mean) * recorded),
        count: (count += recorded)
      }
      histogram.reset()
      return read
    },
    stop
  }
}

// Imported as a whole: a named import that an old Node lacks would prevent loading the module.

/** The figures of a disk that cannot be read. */
export const unknownDisk: DiskFigures = { freeBytes: null, totalBytes: null, percentUsed: null }

/**
 * Returns the figures of the file system of `directory`. Like `df`, it counts space reserved for root as neither used
 * nor free.
 */
export async function readDisk(directory: string): Promise<DiskFigures> {
  try {
    const { bsize, blocks, bfree, bavail } = await fs.statfs(directory) // since Node 18.15; unknown before
    const used = blocks - bfree
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, percentUsed: percentOf(used, used + bavail) }
  } catch {
    return unknownDisk
  }
}

/** Returns a percentage with two decimals, or 0 if `whole` is 0. */
export function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 100
}
