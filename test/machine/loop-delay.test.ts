import t from 'tap'
import { mock } from 'node:test'
import { createLoopDelayMeter } from '../../lib/machine/loop-delay.js'
import { until } from '../support/until.js'

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
