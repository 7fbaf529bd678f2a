import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ContainerFigures } from '../model/machine.js'

/**
 * The figures of the container; null outside of one, or where nothing is limited. Inside, the root of the mounted
 * hierarchy is the container's own group; without a namespace of its own (a systemd unit with limits) it is the path
 * that /proc/self/cgroup names. `root` and `self` stand for those two, for tests.
 */
export async function readContainer({ root = '/sys/fs/cgroup', self = '/proc/self/cgroup' } = {}): Promise<ContainerFigures | null> {
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

/** `<quota> <period>` in microseconds, or `max <period>` (the kernel's cgroup-v2.rst, cpu.max), to cores. */
export function parseCpuMax(line: string): number | null {
  const [, quota, period] = /^(\d+) (\d+)\s*$/.exec(line) ?? []
  if (quota === undefined || period === undefined || Number(period) === 0) return null
  return Math.round((Number(quota) / Number(period)) * 100) / 100
}

/** Null for `max`, and where there is no such file. */
function count(line: string): number | null {
  return /^\d+\s*$/.test(line) ? Number(line) : null
}

async function text(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '')
}
