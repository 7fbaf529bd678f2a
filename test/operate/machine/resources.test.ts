import t from 'tap'
import { join } from 'node:path'
import { totalmem } from 'node:os'
import { mock } from 'node:test'
import {
  createCpuMeter,
  createLoopDelayMeter,
  createResources,
  memoryFigures,
  parseCpuMax,
  parseMeminfo,
  parseVmStat,
  percentsBetween,
  readContainer,
  readMemory,
  percentOf,
  readDisk,
  unknownDisk
} from '../../../lib/operate/machine/resources.js'
import { setClock } from '../../support/clock.js'
import { until } from '../../support/until.js'
import { statfsSync } from 'node:fs'

t.test('a snapshot has every field of §2.11', async t => {
  const clock = setClock()
  const cpu = { read: async () => ({ host: 12.5, process: 130 }) }
  const snapshot = await createResources({ clock, cpu, directory: t.testdir() }).snapshot()
  t.match(snapshot, {
    collectedAt: '2030-01-01T00:00:00.000Z',
    host: {
      hostname: String,
      platform: process.platform,
      arch: process.arch,
      cpuModel: String,
      cpuCount: Number,
      loadAvg: [Number, Number, Number],
      uptimeSec: Number
    },
    cpu: { percent: 12.5 },
    memory: { totalBytes: Number, freeBytes: Number, availableBytes: Number, usedBytes: Number, percentUsed: Number },
    disk: { freeBytes: Number, totalBytes: Number, percentUsed: Number },
    process: {
      pid: process.pid,
      runtime: /^(node|bun)$/,
      runtimeVersion: /^v/,
      uptimeSec: Number,
      cpuPercent: 130,
      memoryRssBytes: Number,
      memoryHeapUsedBytes: Number
    }
  })
  t.ok(snapshot.container === null || 'memoryLimitBytes' in snapshot.container)
})

const mebibyte = 1024 * 1024
const limited = {
  'cgroup.controllers': 'cpu memory\n',
  'memory.max': `${512 * mebibyte}\n`,
  'memory.current': `${200 * mebibyte}\n`,
  'memory.stat': `anon 1\ninactive_file ${50 * mebibyte}\nactive_file 1\n`,
  'cpu.max': '150000 100000\n'
}
const figures = { memoryLimitBytes: 512 * mebibyte, memoryUsedBytes: 150 * mebibyte, cpuLimit: 1.5 }

t.test('reads the limits of the control group', async t => {
  type Tree = Record<string, string | Record<string, Record<string, string>>>
  const unlimited = { ...limited, 'memory.max': 'max\n', 'cpu.max': 'max 100000\n' }
  const cases: Array<{ what: string; tree: Tree; self: string; expected: unknown }> = [
    { what: 'a container: its group is the root', tree: limited, self: '0::/\n', expected: figures },
    {
      what: 'a unit with limits',
      tree: { 'system.slice': { 'svc.service': limited } },
      self: '0::/system.slice/svc.service\n',
      expected: figures
    },
    { what: 'a container that names a path outside', tree: limited, self: '0::/docker/1234\n', expected: figures },
    {
      what: 'only memory is limited',
      tree: { ...limited, 'cpu.max': 'max 100000\n' },
      self: '0::/\n',
      expected: { ...figures, cpuLimit: null }
    },
    { what: 'nothing is limited', tree: unlimited, self: '0::/\n', expected: null },
    { what: 'a machine, not a container', tree: { 'cgroup.controllers': 'cpu\n' }, self: '0::/\n', expected: null },
    { what: 'cgroup v1', tree: {}, self: '4:memory:/x\n', expected: null }
  ]
  for (const { what, tree, self, expected } of cases) {
    const root = t.testdir({ cgroup: tree, self })
    t.same(await readContainer({ root: join(root, 'cgroup'), self: join(root, 'self') }), expected, what)
  }
})

t.test('returns null on a system without control groups', async t => {
  t.equal(await readContainer({ root: '/nowhere', self: '/nowhere' }), null)
})

t.test('converts cpu.max to cores', async t => {
  for (const [line, cores] of [
    ['50000 100000\n', 0.5],
    ['max 100000\n', null],
    ['', null],
    ['1 0', null]
  ] as const) {
    t.equal(parseCpuMax(line), cores, line)
  }
})

const zero = { atMs: 0, idleMs: 0, totalMs: 0, processMs: 0 }

t.test('percentages cover the interval between two samples', async t => {
  const cases = [
    {
      what: 'half of the machine',
      to: { atMs: 1000, idleMs: 1000, totalMs: 2000, processMs: 250 },
      host: 50,
      process: 25
    },
    {
      what: 'threads of one process',
      to: { atMs: 1000, idleMs: 0, totalMs: 4000, processMs: 2500 },
      host: 100,
      process: 250
    },
    { what: 'no time at all', to: zero, host: 0, process: 0 }
  ]
  for (const { what, to, host, process } of cases) t.same(percentsBetween(zero, to), { host, process }, what)
})

t.test('the first reading waits for an interval, and simultaneous callers share it', async t => {
  let samples = 0
  let atMs = 0
  const meter = createCpuMeter(() => {
    samples++
    return { atMs, idleMs: atMs, totalMs: atMs * 2, processMs: 0 }
  })
  setTimeout(() => (atMs = 250), 50)
  const [first, second] = await Promise.all([meter.read(), meter.read()])
  t.same(first, { host: 50, process: 0 })
  t.equal(first, second)
  t.equal(samples, 2)

  atMs += 100
  t.equal(await meter.read(), first, 'a moment later it is the same answer')
  atMs += 5000
  await meter.read()
  t.equal(samples, 4, 'the next one counts from the one before, at once')
  atMs += 60_000
  await meter.read()
  t.equal(samples, 6, 'after a long silence there is a new interval')
})

t.test('measures the work of this process', async t => {
  const meter = createCpuMeter()
  await meter.read()
  const before = process.cpuUsage()
  const fromMs = performance.now()
  // Time of the processor, not of the clock: others may want it too.
  while (process.cpuUsage(before).user < 200_000);
  const { process: percent, host } = await meter.read()
  const leastPercent = (200 / (performance.now() - fromMs)) * 100
  t.ok(percent > leastPercent * 0.5, `${percent} %, of at least ${leastPercent} %`)
  t.ok(host > 0 && host <= 100, `${host} %`)
})

t.test('computes used and available memory (§2.11)', async t => {
  const cases = [
    { what: 'used counts from what is available', given: [1000, 100, 400], expected: [100, 400, 600, 60] },
    { what: 'free stands in where the system does not say', given: [1000, 100, null], expected: [100, 100, 900, 90] },
    { what: 'never more available than there is', given: [1000, 100, 1200], expected: [100, 1000, 0, 0] }
  ] as const
  for (const { what, given, expected } of cases) {
    const [totalBytes, freeBytes, availableBytes] = given
    const [free, available, usedBytes, percentUsed] = expected
    t.same(
      memoryFigures({ totalBytes, freeBytes, availableBytes }),
      { totalBytes, freeBytes: free, availableBytes: available, usedBytes, percentUsed },
      what
    )
  }
})

t.test('reads /proc/meminfo', async t => {
  const text = 'MemTotal:       2048 kB\nMemFree:         512 kB\nMemAvailable:   1024 kB\nBuffers: 1 kB\n'
  t.same(parseMeminfo(text), { totalBytes: 2_097_152, freeBytes: 524_288, availableBytes: 1_048_576 })
  t.equal(parseMeminfo(text.replace(/MemAvailable.*\n/, ''))?.availableBytes, null, 'before Linux 3.14')
  t.equal(parseMeminfo(''), undefined)
})

t.test('reads vm_stat of macOS', async t => {
  const text = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            300000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages purgeable:                           4000.
`
  t.equal(parseVmStat(text), 33_000 * 16_384)
  t.equal(parseVmStat('nonsense'), null)
})

t.test('the figures of this machine add up', async t => {
  const memory = await readMemory()
  t.equal(memory.totalBytes, totalmem())
  t.equal(memory.usedBytes, memory.totalBytes - memory.availableBytes)
  t.ok(memory.freeBytes > 0 && memory.freeBytes <= memory.totalBytes)
})

t.test('measures from the first reading on', async t => {
  const meter = createLoopDelayMeter()
  t.teardown(() => meter.stop())
  t.equal(meter.read(), null)
  const quiet = await until(() => meter.read() ?? undefined)
  t.match(
    quiet.quantiles.map(({ quantile }) => quantile),
    [0.5, 0.9, 0.99]
  )
  t.ok(quiet.sum >= 0 && quiet.count > 0)
  const block = (): void => {
    const endMs = performance.now() + 200
    while (performance.now() < endMs);
  }
  const seen = await until(() => {
    block()
    const read = meter.read()
    return read !== null && read.max > 0.1 ? read : undefined
  })
  t.ok(seen.count > quiet.count && seen.sum >= quiet.sum, 'sum and count only grow')
})

t.test('stops measuring without readers', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const meter = createLoopDelayMeter({ idleMs: 1_000 })
  meter.read()
  const turns = async (count: number): Promise<void> => {
    for (let turn = 0; turn < count; turn++) {
      const endMs = performance.now() + 10
      while (performance.now() < endMs);
      await new Promise(setImmediate)
    }
  }
  let read = meter.read()
  for (; read === null; read = meter.read()) await turns(1)
  t.ok(read.count > 0)
  await turns(20)
  mock.timers.tick(1_000)
  t.equal(meter.read(), null, 'drops the old measurements and starts again')
  meter.stop()
})

t.test('returns the figures of a file system as df does', async t => {
  const directory = t.testdir()
  const { bsize, blocks } = statfsSync(directory)
  const disk = await readDisk(directory)
  t.equal(disk.totalBytes, bsize * blocks)
  t.ok((disk.freeBytes as number) <= (disk.totalBytes as number))
  t.ok((disk.percentUsed as number) >= 0 && (disk.percentUsed as number) <= 100)
})

t.test('returns unknown figures for a missing directory', async t => {
  t.same(await readDisk('/nowhere/at/all'), unknownDisk)
})

t.test('rounds percentages to two decimals', async t => {
  t.equal(percentOf(1, 3), 33.33)
  t.equal(percentOf(0, 0), 0)
})
