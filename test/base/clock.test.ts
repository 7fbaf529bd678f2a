import t from 'tap'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createSteadyClock, elapsedOf, instantOf, machineTimeOf, pause } from '../../lib/base/clock.js'

const hourMs = 60 * 60_000

/** A machine whose clock can be set while time passes. */
function machineOf() {
  const at = { machineMs: 1_800_000_000_000, elapsedMs: 5 }
  const clock = createSteadyClock({ machine: () => Math.floor(at.machineMs), elapsed: () => at.elapsedMs })
  const pass = (ms: number): void => {
    at.machineMs += ms
    at.elapsedMs += ms
  }
  return { clock, pass, set: (ms: number): void => void (at.machineMs += ms), machineMs: () => at.machineMs }
}

t.test("it is the machine's clock, forward also when that is set", async t => {
  const { clock, pass, set, machineMs } = machineOf()
  t.equal(clock.now(), machineMs())
  pass(1234)
  t.equal(clock.now(), machineMs())
  set(30 * hourMs)
  t.equal(clock.now(), machineMs())
})

t.test('continues at normal speed after the clock is set back, until the machine has caught up', async t => {
  const { clock, pass, set, machineMs } = machineOf()
  const before = clock.now()
  set(-hourMs)
  t.equal(clock.now(), before)
  pass(1000)
  t.equal(clock.now(), before + 1000)
  pass(1000)
  t.equal(clock.now(), before + 2000)
  set(hourMs + 5)
  t.equal(clock.now(), machineMs())
  t.equal(clock.now(), before + 2005)
})

t.test('never goes back within a day', async t => {
  const { clock, pass, set } = machineOf()
  let last = clock.now()
  for (const ms of [5, -1, -hourMs, 3, hourMs, -5, -2 * hourMs, 7, -20 * hourMs]) {
    set(ms)
    pass(0.4)
    const now = clock.now()
    t.ok(now >= last && Number.isInteger(now), `${ms}`)
    last = now
  }
})

t.test('uses the new time if the clock is set back by more than a day', async t => {
  const { clock, set, machineMs } = machineOf()
  const before = clock.now()
  set(-25 * hourMs)
  t.equal(clock.now(), machineMs())
  t.equal(clock.latest?.(), before, 'and remembers that it was later')
  clock.follow(machineMs() + 300 * 24 * hourMs)
  t.equal(clock.now(), machineMs(), 'a record of the far future is ignored')
})

t.test('continues after the last recorded time', async t => {
  const { clock, pass, machineMs } = machineOf()
  clock.follow(machineMs() + hourMs)
  pass(10)
  t.equal(clock.now(), machineMs() + hourMs)
  clock.follow(machineMs() - hourMs)
  t.equal(clock.now(), machineMs() + hourMs)
})

t.test('does not affect durations and the times of files', async t => {
  const { clock, pass, set, machineMs } = machineOf()
  const from = elapsedOf(clock)
  set(-5 * hourMs)
  pass(100)
  set(9 * hourMs)
  t.equal(elapsedOf(clock) - from, 100)
  t.equal(machineTimeOf(clock), machineMs())
  t.equal(elapsedOf({ now: () => 7 }), 7)
  t.equal(machineTimeOf({ now: () => 7 }), 7)
})

t.test('The time of a clock is ISO text with milliseconds', async t => {
  t.equal(instantOf({ now: () => 1_893_553_445_678 }), '2030-01-02T03:04:05.678Z')
})

t.test('an abort rejects with the reason of the signal, before and during the pause', async t => {
  const reason = new Error('Ctrl-C')
  const controller = new AbortController()
  const waiting = pause(60_000, controller.signal)
  controller.abort(reason)
  await t.rejects(waiting, reason)
  await t.rejects(pause(60_000, controller.signal), reason)
  await pause(0)
  await pause(0, new AbortController().signal)
})

t.test('no other wait rejects with an error that is not the reason', async t => {
  const lib = fileURLToPath(new URL('../../../lib', import.meta.url))
  const paths = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.ts'))
  t.ok(paths.length > 300)
  for (const path of paths.filter(path => path !== join('base', 'clock.ts'))) {
    const source = readFileSync(join(lib, path), 'utf8')
    const [, name] = /setTimeout(?: as (\w+))? } from 'node:timers\/promises'/.exec(source) ?? []
    if (path.startsWith('cli')) t.equal(name, undefined, `${path} uses pause`)
    if (name === undefined) continue
    // A wait that is caught, or raced, has an answer for the error.
    const bare = new RegExp(`^\\s*await ${name}\\((?!.*\\)\\.(?:catch|then)\\().*signal.*\\)$`, 'm').exec(source)
    t.equal(bare, null, `${path}: use pause`)
  }
})
