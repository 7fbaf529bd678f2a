import t from 'tap'
import { createCpuMeter, percentsBetween } from '../../lib/machine/cpu.js'

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
