import { arch, cpus, hostname, loadavg, platform, uptime } from 'node:os'
import { type Clock, instantOf } from '../base/clock.js'
import { describeRuntime } from '../base/runtime.js'
import type { ResourceSnapshot } from '../model/machine.js'
import { readContainer } from './container.js'
import type { CpuMeter } from './cpu.js'
import { readDisk } from './disk.js'
import { readMemory } from './memory.js'

/** The resources of the machine (§2.11). */
export interface Resources {
  snapshot(): Promise<ResourceSnapshot>
}

/** Creates the reader of the machine. It reads on request and does nothing in between. */
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
