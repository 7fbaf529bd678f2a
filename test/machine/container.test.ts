import { join } from 'node:path'
import t from 'tap'
import { parseCpuMax, readContainer } from '../../lib/machine/container.js'

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
