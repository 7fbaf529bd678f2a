import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ContainerFigures } from '../model/machine.js'

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
