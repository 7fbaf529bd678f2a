import { arch, cpus, hostname, loadavg, platform, uptime } from 'node:os'
import type { Clock } from '../base/clock.js'
import { readContainer } from './container.js'
import type { ContainerFigures } from './container.js'
import type { CpuMeter } from './cpu.js'
import { readDisk } from './disk.js'
import type { DiskFigures } from './disk.js'
import { readMemory } from './memory.js'
import type { MemoryFigures } from './memory.js'
import { describeRuntime } from './runtime.js'

/** What the machine and this process use now (§2.11). */
export interface ResourceSnapshot {
  collectedAt: string
  host: {
    hostname: string
    platform: string
    arch: string
    cpuModel: string
    cpuCount: number
    loadAvg: number[]
    uptimeSec: number
  }
  /** Of all cores together. */
  cpu: { percent: number }
  memory: MemoryFigures
  /** Where the data directory lies. */
  disk: DiskFigures
  process: {
    pid: number
    runtime: string
    runtimeVersion: string
    uptimeSec: number
    /** Of one core. */
    cpuPercent: number
    memoryRssBytes: number
    memoryHeapUsedBytes: number
  }
  /** Beside the machine's figures, not in their place; null where nothing limits this process. */
  container: ContainerFigures | null
}

export interface Resources {
  snapshot(): Promise<ResourceSnapshot>
}

/** Reads the machine each time it is asked, and does nothing in between. */
export function createResources(needs: { clock: Clock; cpu: CpuMeter; directory: string }): Resources {
  const { clock, cpu, directory } = needs

  return {
    async snapshot() {
      const [percents, memory, disk, container] = await Promise.all([
        cpu.read(),
        readMemory(),
        readDisk(directory),
        readContainer()
      ])
      const { rss, heapUsed } = process.memoryUsage()
      const runtime = describeRuntime()
      return {
        collectedAt: new Date(clock.now()).toISOString(),
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
