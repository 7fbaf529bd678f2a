import t from 'tap'
import { elapsedOf } from '../../lib/base/clock.js'
import { reportGate, runGate, type Attempt } from '../../lib/deploy/gate.js'
import { defaultGate } from '../../lib/model/gate.js'
import type { CheckResult } from '../../lib/model/deployment.js'
import type { Check, Gate } from '../../lib/model/policy.js'

const tcp: Check = { tcp: 'a:1' }
const other: Check = { tcp: 'b:2' }
const quick = { ...defaultGate, interval: 0.005, timeout: 1, deadline: 5, successes: 1 }

/** Runs a gate whose checks give these answers, then the last one again. */
function stage(answers: Record<string, Array<boolean | string>>) {
  const said: string[] = []
  const results: CheckResult[][] = []
  const stop = new AbortController()
  let attempts = 0
  const checks = async (check: Check): Promise<Attempt> => {
    attempts++
    const list = answers['tcp' in check ? check.tcp : ''] as Array<boolean | string>
    const next = list.length > 1 ? list.shift() : list[0]
    return { ok: next === true, message: next === true ? 'connected' : next === false ? 'refused' : String(next) }
  }
  // The system's clock jumps; durations do not follow it.
  let jumpMs = 0
  const clock = { now: () => Date.now() + (jumpMs += 3_600_000), elapsed: () => performance.now() }
  const run = (gate: Gate): Promise<void> =>
    runGate(gate, {
      clock,
      checks,
      say: line => said.push(line),
      signal: stop.signal,
      onResults: each => results.push(each)
    })
  return { run, said, results, stop, clock, checks, attempts: () => attempts }
}

t.test('passes when all checks pass as often as needed, in a row', async t => {
  const { run, said, results, attempts } = stage({ 'a:1': [false, true, false, true], 'b:2': [true] })
  await run({ ...quick, successes: 3, after: [tcp, other] })
  t.equal(attempts(), 12, 'six attempts of two checks')
  t.strictSame(said, [
    '→ check tcp a:1: failed (refused)',
    '→ check tcp b:2: passed (connected)',
    '→ check tcp a:1: passed (connected)',
    '→ check tcp a:1: failed (refused)',
    '→ check tcp a:1: passed (connected)'
  ])
  t.match(results.at(-1), [
    { check: 'tcp a:1', ok: true, attempts: 6, message: 'connected', endedAt: /Z$/ },
    { check: 'tcp b:2', ok: true, attempts: 6 }
  ])
})

t.test('fails at the deadline, and says which check failed last', async t => {
  const { run, attempts } = stage({ 'a:1': ['503\nforged line'], 'b:2': [true] })
  const gate = { ...quick, interval: 0.05, deadline: 1, after: [tcp, other] }
  await t.rejects(run(gate), { name: 'StepFailure', message: 'The check tcp a:1 failed: 503\\nforged line within 1 s' })
  t.ok(attempts() > 4)
  await t.rejects(run(gate), { name: 'StepFailure' })
})

t.test('a check that flaps never passes often enough', async t => {
  const answers = Array.from({ length: 1000 }, (_, index) => index % 2 === 0)
  const { run } = stage({ 'a:1': answers })
  await t.rejects(run({ ...quick, successes: 2, deadline: 1, after: [tcp] }), { name: 'StepFailure' })
})

t.test('the checks must continue to pass for a while', async t => {
  const steady = stage({ 'a:1': [true] })
  const before = elapsedOf(steady.clock)
  await steady.run({ ...quick, stableFor: 0.1, after: [tcp] })
  t.ok(elapsedOf(steady.clock) - before >= 100)
  const { run } = stage({ 'a:1': [true, true, false] })
  await t.rejects(run({ ...quick, stableFor: 1, after: [tcp] }), {
    message: 'The check tcp a:1 failed: refused after it had passed'
  })
})

t.test('a log is watched for its time', async t => {
  const { run, clock } = stage({ '': [true] })
  const before = elapsedOf(clock)
  await run({ ...quick, after: [{ log: 'lsrc_a', none: 'x', for: 0.1 }] })
  t.ok(elapsedOf(clock) - before >= 100)
})

t.test('an abort ends it with its reason', async t => {
  const { run, stop } = stage({ 'a:1': [false] })
  setTimeout(() => stop.abort(new Error('cancelled')), 30)
  await t.rejects(run({ ...quick, after: [tcp] }), { message: 'cancelled' })
})

t.test('an attempt that never ends counts as failed', async t => {
  const said: string[] = []
  const never = new Promise<Attempt>(() => {})
  const gate = { ...quick, timeout: 0.1, deadline: 0.2, after: [tcp] }
  const needs = { clock: { now: Date.now }, checks: () => never, say: (line: string) => void said.push(line) }
  const { signal } = new AbortController()
  await t.rejects(runGate(gate, { ...needs, signal, onResults() {} }), { message: /no answer within 0.1 s/ })
  await reportGate(gate, { ...needs, signal })
  t.equal(said.length, 2)
})

t.test('reports each check once, whatever it answers', async t => {
  const { checks, clock, said, stop, attempts } = stage({ 'a:1': [false], 'b:2': [true] })
  await reportGate(
    { ...quick, after: [tcp, other] },
    { checks, clock, say: line => said.push(line), signal: stop.signal }
  )
  t.equal(attempts(), 2)
  t.equal(said.length, 2)
  const broken = async (): Promise<Attempt> => {
    throw new Error('aborted')
  }
  await reportGate({ ...quick, after: [tcp] }, { checks: broken, clock, say() {}, signal: stop.signal })
})
