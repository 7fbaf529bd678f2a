import t from 'tap'
import type { Test } from 'tap'
import { type AddressInfo, createServer } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { elapsedOf } from '../../lib/base/clock.js'
import { type Attempt, createChecks, reportGate, runGate } from '../../lib/deploy/gate.js'
import { type Check, defaultGate, type Gate } from '../../lib/model/policy.js'
import type { CheckResult } from '../../lib/model/deployment.js'
import type { CheckSources, NewLines } from '../../lib/deploy/needs.js'
import { createSearches } from '../../lib/operate/logs/search/search.js'
import { createMasker } from '../../lib/deploy/scripts/environment.js'
import type { ScriptStage } from '../../lib/deploy/scripts/scripts.js'
import type { Pm2Binding } from '../../lib/model/machine.js'
import { statusServer } from '../support/held.js'

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
  await t.rejects(run(gate), {
    name: 'StepFailure',
    message: 'The check tcp a:1 did not pass within 1 s: 503\\nforged line'
  })
  t.ok(attempts() > 4)
  await t.rejects(run(gate), { name: 'StepFailure' })
})

t.test('a check that flaps never passes often enough', async t => {
  const answers = Array.from({ length: 1000 }, (_, index) => index % 2 === 0)
  const { run } = stage({ 'a:1': answers })
  await t.rejects(run({ ...quick, successes: 2, deadline: 1, after: [tcp] }), { name: 'StepFailure' })
  const good = stage({ 'a:1': [true] })
  await t.rejects(good.run({ ...quick, successes: 99, interval: 1, deadline: 1, after: [tcp] }), {
    message: 'The checks did not pass 99 times in a row within 1 s'
  })
})

t.test('the checks must continue to pass for a while', async t => {
  const steady = stage({ 'a:1': [true] })
  const before = elapsedOf(steady.clock)
  await steady.run({ ...quick, stableFor: 0.1, after: [tcp] })
  t.ok(elapsedOf(steady.clock) - before >= 100)
  const { run } = stage({ 'a:1': [true, true, false] })
  await t.rejects(run({ ...quick, stableFor: 1, after: [tcp] }), {
    message: 'The check tcp a:1 passed, and then failed: refused'
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

const searches = createSearches({ stallMs: 300 })
t.teardown(() => searches.close())

function checkStage(t: Test, patch: Partial<CheckSources> = {}) {
  const target = t.testdir({})
  const sources: CheckSources = {
    hosts: () => [],
    pm2: async () => ({ bound: false, message: 'not linked' }),
    log: async () => ({ lines: [], endOffset: 0, hasMore: false }),
    firstMatch: searches.firstMatch,
    ...patch
  }
  const scripts = {
    target,
    directory: null,
    shell: null,
    isFirst: false,
    umask: null,
    rights: null,
    masker: createMasker(['hunter2hunter2']),
    env: { PATH: process.env['PATH'], SVC_DEPLOY_ID: 'dep_a' }
  } as Partial<ScriptStage> as ScriptStage
  const checked = { deployId: 'dep_a', project: { id: 'proj_a', pm2AppName: 'shop' }, stage: () => scripts }
  const attempt = createChecks(sources, checked)
  const { signal } = new AbortController()
  return { target, attempt: (check: Check, timeoutMs = 60_000) => attempt(check, { timeoutMs, signal }), raw: attempt }
}

t.test('asks an HTTP server', async t => {
  const server = await statusServer(t)
  const { attempt } = checkStage(t)
  t.strictSame(await attempt({ http: server.url }), { ok: true, message: '200' })
  t.strictSame(await attempt({ http: server.url, contains: 'hello' }), { ok: true, message: '200' })
  t.match(await attempt({ http: server.url, contains: '${SVC_DEPLOY_ID}' }), { ok: false, message: /^200, but/ })
  server.status = 302
  t.strictSame(await attempt({ http: server.url }), { ok: false, message: '302' })
  t.strictSame(await attempt({ http: server.url, status: '300-399' }), { ok: true, message: '302' })
  t.match(await attempt({ http: 'http://192.0.2.1/' }), { ok: false, message: /gate_hosts/ })
})

t.test('connects to a port', async t => {
  const server = createServer(socket => socket.destroy())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { attempt } = checkStage(t)
  t.strictSame(await attempt({ tcp: place }), { ok: true, message: 'connected' })
  await new Promise(resolve => server.close(resolve))
  t.match(await attempt({ tcp: place }), { ok: false, message: /refused/ })
  t.match(await attempt({ tcp: 'no port' }), { ok: false })
})

t.test('runs a command like a script, and masks secrets', async t => {
  const { attempt, target } = checkStage(t)
  writeFileSync(join(target, 'here'), '')
  t.strictSame(await attempt({ command: 'test -e here && test "$SVC_DEPLOY_ID" = dep_a' }), {
    ok: true,
    message: 'exit code 0'
  })
  t.strictSame(await attempt({ command: 'echo first; echo hunter2hunter2 >&2; exit 3' }), {
    ok: false,
    message: 'exit code 3: ***'
  })
  t.match(await attempt({ command: 'sleep 60' }, 100), { ok: false, message: /time limit/ })
  t.match(await attempt({ command: 'sleep 0.3', timeout: 20 }, 100), { ok: true })
  t.match(await attempt({ command: 'kill -9 $$' }), { ok: false, message: /SIGKILL/ })
})

t.test('asks PM2, and fails if the application restarts', async t => {
  let binding = { bound: false, message: 'not linked' } as Pm2Binding
  const { attempt } = checkStage(t, { pm2: async () => binding })
  const pm2 = { pm2: 'online' } as const
  t.strictSame(await attempt(pm2), { ok: false, message: 'not linked' })
  binding = { bound: true, found: null, name: 'shop', reason: 'idle', message: 'no daemon' }
  t.strictSame(await attempt(pm2), { ok: false, message: 'no daemon' })
  binding = { bound: true, found: false, name: 'shop' }
  t.match(await attempt(pm2), { ok: false, message: /"shop"/ })
  const app = { bound: true, found: true, name: 'shop', status: 'online', restarts: 4 }
  binding = app as Pm2Binding
  t.strictSame(await attempt(pm2), { ok: true, message: 'online' })
  binding = { ...app, restarts: 6 } as Pm2Binding
  t.strictSame(await attempt(pm2), { ok: false, message: 'restarted 2 times' })
  binding = { ...app, status: 'errored' } as Pm2Binding
  t.strictSame(await attempt(pm2), { ok: false, message: 'errored' })
})

t.test('reads the new lines of a log', async t => {
  const asked: Array<number | null> = []
  const answers: NewLines[] = [
    { lines: [], endOffset: 100, hasMore: false },
    { lines: ['fine'], endOffset: 200, hasMore: true },
    { lines: ['still fine'], endOffset: 300, hasMore: false },
    { lines: ['a PANIC'], endOffset: 400, hasMore: false }
  ]
  const { attempt } = checkStage(t, {
    async log({ offset, projectId, sourceId }) {
      t.strictSame([projectId, sourceId], ['proj_a', 'lsrc_a'])
      asked.push(offset)
      return answers.shift() as NewLines
    }
  })
  const check = { log: 'lsrc_a', none: '(?i)panic', for: 1 }
  t.strictSame(await attempt(check), { ok: true, message: 'no such line' })
  t.strictSame(await attempt(check), { ok: true, message: 'no such line' })
  t.strictSame(await attempt(check), { ok: false, message: 'found: a PANIC' })
  t.strictSame(asked, [null, 100, 200, 300])
})

t.test('an expression that never ends fails the check, and stops nothing', async t => {
  const line = 'the application wrote a long line of plain words here and then a sign that ends it!'
  const answers = [[line], [line], ['fine']]
  const log = async () => ({ lines: answers.shift() ?? [], endOffset: 100, hasMore: false })
  const { attempt } = checkStage(t, { log })
  let turns = 0
  const counting = setInterval(() => void turns++, 1)
  const endless = await attempt({ log: 'lsrc_a', none: '^(\\w+\\s?)*$', for: 1 })
  clearInterval(counting)
  t.match(endless, { ok: false, message: /takes too long/ })
  t.ok(turns > 20, `the event loop went on ${turns} times`)
  t.strictSame(await attempt({ log: 'lsrc_a', none: 'panic', for: 1 }), { ok: true, message: 'no such line' })
})

t.test('an error is an answer, but an abort is not', async t => {
  const log = async () => {
    throw new Error('no such log source')
  }
  const { attempt, raw } = checkStage(t, { log })
  const check = { log: 'lsrc_a', none: 'x', for: 1 }
  t.strictSame(await attempt(check), { ok: false, message: 'no such log source' })
  const signal = AbortSignal.abort(new Error('cancelled'))
  await t.rejects(raw(check, { timeoutMs: 1, signal }), { message: 'cancelled' })
})
