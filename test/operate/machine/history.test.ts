import t from 'tap'
import { mock } from 'node:test'
import type { MachineFacts } from '../../../lib/model/machine.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { readMachineHistory } from '../../../lib/core/store/tables/server.js'
import {
  createHistory,
  createStats,
  createTakeFacts,
  datesUpTo,
  historyMinutes
} from '../../../lib/operate/machine/history.js'
import { setClock } from '../../support/clock.js'
import type { DeploymentRow, DeploymentStep } from '../../../lib/model/deployment.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../../core/store/stage.js'

const minuteMs = 60_000
const all = { from: '', to: '9' }
const facts: MachineFacts = {
  cpuPercent: 10,
  processCpuPercent: 1,
  memoryUsedBytes: 100,
  memoryTotalBytes: 1_000,
  memoryRssBytes: 50,
  diskUsedPercent: 40,
  diskFreeBytes: 600,
  load: 0.5,
  succeeded: 1,
  failed: 0
}

async function createStage(t: { testdir(): string; teardown(work: () => unknown): void }) {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const store = await openStore({ directory: t.testdir() })
  t.teardown(() => store.close())
  const clock = setClock(Date.parse('2030-01-01T00:00:00Z'))
  const faults: unknown[] = []
  let cpuPercent = 0
  const create = () =>
    createHistory({
      store,
      clock,
      take: async () => ({ ...facts, cpuPercent: cpuPercent++ }),
      log: (...fault) => void faults.push(fault)
    })
  /** So many minutes pass. */
  async function pass(minutes: number): Promise<void> {
    for (let n = 0; n < minutes; n++) {
      clock.advance(minuteMs)
      mock.timers.tick(minuteMs)
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    }
  }
  const stored = (): string[] => readMachineHistory(store, all).map(({ at }) => at.slice(11, 16))
  return { store, clock, create, pass, stored, faults }
}

t.test('a row per minute waits in memory for another write, an hour, or the stop', async t => {
  const { store, create, pass, stored, faults } = await createStage(t)
  const history = create()
  history.start()
  await pass(3)
  t.same(
    history.read(1).items.map(({ at, cpuPercent }) => [at.slice(11, 16), cpuPercent]),
    [
      ['00:00', 1],
      ['00:01', 2],
      ['00:02', 3]
    ]
  )
  t.same(stored(), [], 'the disk sleeps')
  await store.write(tx => tx.run("INSERT INTO settings (key, value) VALUES ('a', 'b')"))
  await pass(1)
  t.same(stored(), ['00:00', '00:01', '00:02', '00:03'])
  await pass(59)
  t.equal(stored().length, 4, 'its own writes count for nothing')
  await pass(1)
  t.equal(stored().length, 64)
  await pass(2)
  await history.stop()
  t.equal(stored().length, 66)
  await pass(3)
  t.equal(stored().length, 66, 'nothing after the stop')
  t.same(faults, [])
})

t.test('keeps a day, shows a gap after a stop, and combines steps', async t => {
  const { create, pass, clock } = await createStage(t)
  const before = create()
  before.start()
  await pass(10)
  await before.stop()
  clock.advance(20 * minuteMs)
  const history = create()
  history.start()
  await pass(10)
  const { items, to } = history.read(1)
  t.equal(items.length, 20)
  t.equal(to, '2030-01-01T00:40:00.000Z')
  t.same(
    items.slice(9, 11).map(({ at }) => at.slice(11, 16)),
    ['00:09', '00:30'],
    'the gap'
  )
  const steps = history.read(5).items
  t.same(
    steps.map(({ at, succeeded }) => [at.slice(11, 16), succeeded]),
    [
      ['00:00', 5],
      ['00:05', 5],
      ['00:30', 5],
      ['00:35', 5]
    ]
  )
  t.equal(steps[0]?.cpuPercent, 3, 'the mean of 1 to 5')
  clock.advance((historyMinutes - 5) * minuteMs)
  t.equal(history.read(1).items.length, 5)
  await history.stop()
})

t.test('survives a clock that is set back or forward', async t => {
  const { create, pass, clock, stored } = await createStage(t)
  const history = create()
  history.start()
  await pass(3)
  clock.advance(-2 * minuteMs)
  await pass(2)
  t.same(
    history.read(1).items.map(({ at }) => at.slice(11, 16)),
    ['00:00', '00:01', '00:02'],
    'no minute twice'
  )
  clock.advance(-48 * 60 * minuteMs)
  await pass(1)
  t.same(
    history.read(1).items.map(({ at }) => at.slice(0, 16)),
    ['2029-12-30T00:03'],
    'what is in the future is not shown'
  )
  await history.stop()
  t.same(stored(), ['00:03'], 'and not kept')
})

t.test('reads the figures of this machine', async t => {
  let ends = { success: 3, failed: 1 }
  const take = createTakeFacts({ directory: t.testdir(), ends: () => ends })
  ends = { success: 5, failed: 1 }
  const first = await take()
  t.match(first, { succeeded: 2, failed: 0, cpuPercent: Number, load: Number })
  t.ok(first.memoryUsedBytes > 0 && first.memoryUsedBytes <= first.memoryTotalBytes && first.memoryRssBytes > 0)
  t.match(await take(), { succeeded: 0, failed: 0 })
})

const clock = setClock(Date.parse('2030-03-02T00:00:30Z'))
const step = (
  name: DeploymentStep['name'],
  ms: number,
  status: DeploymentStep['status'] = 'success'
): DeploymentStep => ({
  name,
  status,
  startedAt: '2030-03-01T00:00:00.000Z',
  endedAt: new Date(Date.parse('2030-03-01T00:00:00Z') + ms).toISOString()
})

t.test('stats', async t => {
  const store = await aStore(t)
  const rows: Array<Partial<DeploymentRow>> = [
    { startTime: '2030-02-27T23:59:59.999Z', status: 'failed' },
    {
      startTime: '2030-02-28T00:00:00.000Z',
      status: 'success',
      steps: [step('extract', 100), step('preDeploy', 0, 'skipped')]
    },
    { startTime: '2030-02-28T12:00:00.000Z', status: 'failed', steps: [step('extract', 300)] },
    { startTime: '2030-03-02T00:00:00.000Z', status: 'running', projectId: 'proj_b' },
    {
      startTime: '2030-03-02T00:00:01.000Z',
      status: 'success',
      projectId: 'proj_b',
      steps: [step('extract', 200), step('store', 5)]
    }
  ]
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id }))
    rows.forEach((row, index) => insertDeployment(tx, aDeployment({ id: `dep_${index}`, projectId: 'proj_a', ...row })))
  })
  const stats = createStats({ store, clock })

  t.test('counts by UTC day, empty days included', async t => {
    t.same(datesUpTo(clock.now(), 3), ['2030-02-28', '2030-03-01', '2030-03-02'])
    t.same(stats.heatmap(3), {
      days: 3,
      cells: [
        { date: '2030-02-28', count: 2, failed: 1 },
        { date: '2030-03-01', count: 0, failed: 0 },
        { date: '2030-03-02', count: 2, failed: 0 }
      ]
    })
  })

  t.test('computes the rate from finished deployments', async t => {
    t.same(stats.successRates(3).points, [
      { date: '2030-02-28', success: 1, failed: 1, rate: 50 },
      { date: '2030-03-01', success: 0, failed: 0, rate: null },
      { date: '2030-03-02', success: 1, failed: 0, rate: 100 }
    ])
  })

  t.test('computes the durations of each step', async t => {
    const all = stats.durations({ days: 3 })
    t.same(all.steps, [
      { name: 'store', count: 1, medianMs: 5, p95Ms: 5, maxMs: 5 },
      { name: 'extract', count: 3, medianMs: 200, p95Ms: 300, maxMs: 300 }
    ])
    t.match(all, { days: 3, projectId: null, deployments: 3 })
    t.same(
      all.recent.map(({ id }) => id),
      ['dep_1', 'dep_2', 'dep_4'],
      'oldest first'
    )
    t.same(stats.durations({ days: 3, projectId: 'proj_b' }).recent, [
      {
        id: 'dep_4',
        startTime: rows[4]?.startTime,
        status: 'success',
        steps: [
          { name: 'extract', ms: 200 },
          { name: 'store', ms: 5 }
        ]
      }
    ])
  })
})
