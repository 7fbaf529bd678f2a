import t from 'tap'
import { once } from 'node:events'
import { createServer as createTlsServer } from 'node:https'
import { createSecureContext } from 'node:tls'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { ensureHome, type Environment, locateHome } from '../../lib/base/config/home.js'
import { sendReport, telemetryState, createCollector, createRateLimit } from '../../lib/operate/telemetry.js'
import { makeSigned } from '../support/certificates.js'
import { setClock } from '../support/clock.js'
import { startReceiver } from '../support/receiver.js'
import { telemetryEvents, type TelemetryReport } from '../../lib/model/setting.js'
import { openStage } from '../support/store.js'
import { listen } from '../support/on-loopback.js'

const never = new AbortController().signal

async function stage(t: { testdir(): string }, config?: object) {
  const home = locateHome({ SVC_HOME: t.testdir() })
  await ensureHome(home)
  if (config) writeFileSync(home.configFile, JSON.stringify(config))
  const send = (environment: Environment = {}, signal = never) =>
    sendReport({ event: 'svc.push.start', home, environment, version: '1.2.3', clock: setClock(), signal })
  return { home, send, config: () => JSON.parse(readFileSync(home.configFile, 'utf8')) as Record<string, unknown> }
}

t.test('sends nothing and creates no id without an endpoint', async t => {
  const { home, send } = await stage(t)
  await send()
  t.notOk(existsSync(home.configFile))
})

t.test('trusts the authorities of a server', async t => {
  const { authority, server: signed } = makeSigned()
  const server = createTlsServer(signed, (_, response) => void response.end())
  const port = await listen(t, server)
  const { home } = await stage(t, { telemetryEndpoint: `https://localhost:${port}/report` })
  const asked = once(server, 'request')
  const trust = () => createSecureContext({ ca: authority.cert })
  const request = { event: 'svc.serve.startup', home, environment: {}, version: '1', clock: setClock() } as const
  await sendReport({ ...request, signal: never })
  t.equal(await Promise.race([asked, 'nothing']), 'nothing', 'not without them')
  await sendReport({ ...request, trust, signal: never })
  t.match(await asked, [{ url: '/report' }])
})

t.test('a report has six fields and a stable id', async t => {
  const receiver = await startReceiver(t)
  const { send, config } = await stage(t, {
    telemetryEndpoint: `${receiver.url}/report`,
    projectToken: { proj_1: 'secret' }
  })
  await send()
  await send()
  const [first, second] = receiver.requests.map(({ text }) => JSON.parse(text))
  t.strictSame(first, {
    event: 'svc.push.start',
    ts: '2030-01-01T00:00:00.000Z',
    svcVersion: '1.2.3',
    instanceId: config()['telemetryInstanceId'],
    os: process.platform,
    arch: process.arch
  })
  t.match(first.instanceId, /^[0-9a-f-]{36}$/)
  t.equal(second.instanceId, first.instanceId)
  t.match(config(), { projectToken: { proj_1: 'secret' } }, 'other settings stay')
  t.match(receiver.requests[0], { method: 'POST', path: '/report', headers: { 'content-type': 'application/json' } })
})

t.test('the environment overrides the file, and "off" overrides both', async t => {
  const one = await startReceiver(t)
  const other = await startReceiver(t)
  const { send } = await stage(t, { telemetryEndpoint: one.url })
  await send({ SVC_TELEMETRY_ENDPOINT: other.url })
  t.same([one.requests.length, other.requests.length], [0, 1])
  await send({ SVC_TELEMETRY_ENDPOINT: '' })
  t.same([one.requests.length, other.requests.length], [1, 1], 'an empty variable is ignored')
  await send({ SVC_TELEMETRY_ENDPOINT: 'nonsense' })
  t.same([one.requests.length, other.requests.length], [1, 1], 'an invalid address does not fall back to another one')
  const off = await stage(t, { telemetryEnabled: false, telemetryEndpoint: one.url })
  await off.send({ SVC_TELEMETRY_ENDPOINT: other.url })
  t.same([one.requests.length, other.requests.length], [1, 1])
})

t.test('every failure is silent', async t => {
  const receiver = await startReceiver(t)
  const broken = await stage(t)
  writeFileSync(broken.home.configFile, '{')
  await broken.send({ SVC_TELEMETRY_ENDPOINT: receiver.url })
  t.equal(receiver.requests.length, 0)
  const { send } = await stage(t, {})
  for (const behaviour of [500, 'reset', 'redirect', 'endless'] as const) {
    receiver.behave(behaviour)
    await send({ SVC_TELEMETRY_ENDPOINT: receiver.url })
  }
  t.equal(receiver.requests.length, 4, 'one attempt each, without retries')
  receiver.behave('hang')
  const fromMs = performance.now()
  const keepAlive = setTimeout(() => {}, 10_000)
  await send({ SVC_TELEMETRY_ENDPOINT: receiver.url })
  // Without the limit it would wait forever. Node's timers may fire a millisecond early.
  t.ok(performance.now() - fromMs >= 2_999, 'the limit is 3 seconds')
  const giveUp = new AbortController()
  const given = send({ SVC_TELEMETRY_ENDPOINT: receiver.url }, giveUp.signal)
  giveUp.abort()
  await given
  clearTimeout(keepAlive)
})

t.test('two simultaneous reports use the same id', async t => {
  const receiver = await startReceiver(t)
  const { send } = await stage(t, { telemetryEndpoint: receiver.url })
  await Promise.all([send(), send(), send()])
  t.equal(new Set(receiver.requests.map(({ text }) => JSON.parse(text).instanceId)).size, 1)
})

t.test('telemetry has no address by default', async t => {
  t.strictSame(telemetryState({}, {}), { isEnabled: true, endpoint: null, source: null, url: null, instanceId: null })
})

const [startup, push] = telemetryEvents
const dayMs = 24 * 60 * 60_000

function report(instanceId: string, patch: Partial<TelemetryReport> = {}): TelemetryReport {
  return {
    event: startup,
    ts: '2001-01-01T00:00:00Z',
    svcVersion: '1.0.0',
    instanceId,
    os: 'linux',
    arch: 'x64',
    ...patch
  }
}

t.test('the overview counts each instance once and all reports', async t => {
  const { store, clock } = await openStage(t)
  const collector = createCollector({ store, clock })
  t.same(collector.overview(2), {
    days: 2,
    totals: { instances: 0, startups: 0, pushes: 0 },
    daily: [
      { date: '2029-12-31', instances: 0, startups: 0, pushes: 0 },
      { date: '2030-01-01', instances: 0, startups: 0, pushes: 0 }
    ],
    versions: [],
    platforms: []
  })
  await collector.add(report('a'))
  await collector.add(report('a', { event: push }))
  await collector.add(report('a', { event: push }))
  await collector.add(report('b', { os: 'darwin', arch: 'arm64' }))
  clock.advance(2 * dayMs)
  await collector.add(report('a', { svcVersion: '1.1.0' }))
  await collector.add(report('c', { event: push, svcVersion: '1.1.0' }))
  t.same(collector.overview(3), {
    days: 3,
    totals: { instances: 3, startups: 3, pushes: 3 },
    daily: [
      { date: '2030-01-01', instances: 2, startups: 2, pushes: 2 },
      { date: '2030-01-02', instances: 0, startups: 0, pushes: 0 },
      { date: '2030-01-03', instances: 2, startups: 1, pushes: 1 }
    ],
    versions: [
      { version: '1.1.0', count: 2 },
      { version: '1.0.0', count: 1 }
    ],
    platforms: [
      { os: 'linux', arch: 'x64', count: 2 },
      { os: 'darwin', arch: 'arm64', count: 1 }
    ]
  })
  t.match(collector.overview(1), {
    totals: { instances: 2, startups: 1, pushes: 1 },
    versions: [{ version: '1.1.0', count: 2 }]
  })
})

t.test('limits the stored reports', async t => {
  const { store, clock } = await openStage(t)
  const rows = () => store.all('SELECT instanceId FROM telemetryReports ORDER BY instanceId')
  await createCollector({ store, clock, keep: 2 }).add(report('a'))
  clock.advance(dayMs)
  for (const id of ['b', 'c']) await createCollector({ store, clock, keep: 2 }).add(report(id))
  t.same(rows(), [{ instanceId: 'b' }, { instanceId: 'c' }], 'the oldest was removed')
  clock.advance(366 * dayMs)
  await createCollector({ store, clock }).add(report('d'))
  t.same(rows(), [{ instanceId: 'd' }], 'reports older than a year are removed')
})

t.test('limits requests per minute, by key and in total', async t => {
  const clock = setClock()
  const limit = createRateLimit({ clock, perKey: 2, ofAll: 5 })
  clock.advance(20_000)
  for (const key of ['a', 'b', 'a', 'b']) limit.take(key)
  t.throws(() => limit.take('a'), { kind: 'too_many', code: 'rate_limited', retryAfterSeconds: 40 })
  limit.take('c')
  t.throws(() => limit.take('d'), { code: 'rate_limited' }, 'the total limit')
  clock.advance(40_000)
  limit.take('a')
  limit.take('d')
})
