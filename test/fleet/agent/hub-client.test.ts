import t from 'tap'
import type { Test } from 'tap'
import { existsSync } from 'node:fs'
import { HubClient, enrol, hubKeyOf } from '../../../lib/fleet/agent/hub-client.js'
import { createKeyring } from '../../../lib/fleet/agent/from-hub.js'
import { openAgentKey } from '../../../lib/fleet/agent/identity.js'
import { createCaller } from '../../../lib/http/outgoing/caller.js'
import { type FakeHub, startFakeHub } from '../../support/fake-hub.js'
import { startAgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'

const { signal } = new AbortController()
const report = { method: 'POST', path: '/api/agent/reports', body: { answers: [] }, signal } as const
const caller = (address: string) => createCaller({ address, environment: {} })

async function clientOf(t: Test, hub: FakeHub, more: string[] = []): Promise<HubClient> {
  const key = await openAgentKey(t.testdir())
  const hubs = [hub.url]
  const about = { hubs, name: 'a', labels: {}, version: '1', key, createCaller: caller, signal }
  const { nodeId, hubKey } = await enrol({ token: hub.token(), ...about })
  const keyring = createKeyring(hubKey, () => {})
  const client = new HubClient({ nodeId, key, keyring, hubs: [...hubs, ...more], createCaller: caller })
  t.teardown(() => client.close())
  return client
}

t.test('requests share a session, and a forgotten one is begun again', async t => {
  const hub = await startFakeHub(t, { base: '/b' })
  const client = await clientOf(t, hub)
  await Promise.all([client.json(report), client.json(report)])
  const sessions = (): number => hub.seen.filter(line => line.endsWith('/session')).length
  t.equal(sessions(), 1)
  hub.forgetSessions()
  t.strictSame(await client.json(report), { success: true })
  t.equal(sessions(), 2)
  t.equal(hub.reports.length, 3)
})

t.test('a refusal of the hub keeps its code and sentence; an answer of a proxy gets a sentence', async t => {
  const hub = await startFakeHub(t)
  const client = await clientOf(t, hub)
  const call = { method: 'GET', path: '/api/agent/releases/none', signal } as const
  await t.rejects(client.open(call), { kind: 'not_found', code: 'not_found', message: 'Refused: not_found' })
  hub.intercept = (_, response) => Boolean(response.writeHead(502).end('<html>'))
  await t.rejects(client.json(report), { kind: 'unavailable', code: 'http_502', message: /answered 502/ })
})

t.test('a hub that cannot be reached is left for the next address', async t => {
  const hub = await startFakeHub(t)
  const client = await clientOf(t, hub, ['http://127.0.0.1:1'])
  client.moveOn()
  t.equal(client.address(), 'http://127.0.0.1:1')
  await t.rejects(client.json(report), { code: 'hub_unreachable' })
  client.moveOn()
  t.strictSame(await client.json(report), { success: true })
  client.setHubs(['http://127.0.0.1:2', hub.url])
  t.equal(client.address(), hub.url, 'an address in use stays in use')
  client.setHubs(['http://127.0.0.1:2'])
  t.equal(client.address(), 'http://127.0.0.1:2')
})

t.test('a request that the hub did not get in time is sent again, signed again', async t => {
  const hub = await startFakeHub(t)
  const client = await clientOf(t, hub)
  const signatures: unknown[] = []
  let late = 2
  hub.intercept = ({ headers }, response) => {
    signatures.push(headers.authorization)
    return late-- > 0 && Boolean(response.writeHead(408, { connection: 'close' }).end('{}'))
  }
  t.strictSame(await client.json(report), { success: true })
  t.equal(new Set(signatures).size, signatures.length)
  late = 100
  await t.rejects(client.json(report), { kind: 'unavailable', code: 'http_408' })
  t.equal(late, 97, 'three times at most')
})

t.test('a stream that breaks, or is silent, is opened again', async t => {
  const stage = await startAgentStage(t, {
    times: { waits: { jitterMs: 10, firstMs: 10, longestMs: 50, silentMs: 300 } }
  })
  const { hub } = stage
  hub.cut()
  await until(() => hub.streams() === 0)
  await hub.connected()
  hub.heartbeatMs = null
  await until(() => stage.said.some(line => /silent for 0.3 s/.test(line)))
  hub.heartbeatMs = 100
  await hub.connected()
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
})

t.test('while there is no hub, attempts continue, and are reported once', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  hub.intercept = (_, response) => Boolean(response.writeHead(503).end())
  hub.cut()
  const count = (): number => hub.seen.filter(line => /session|desired/.test(line)).length
  const before = count()
  await until(() => count() > before + 3)
  t.equal(stage.said.filter(line => /Cannot connect to the hub/.test(line)).length, 1, stage.said.join('|'))
  hub.intercept = null
  await hub.connected()
})

t.test('a line that is not one of the hub ends the stream, and is named', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  const order = hub.order(release, 'prepare')
  await hub.answer(order, 'prepared')
  const swap = { ...order, attempt: 99, action: 'swap' as const }
  const forgeries: Array<[what: string, text: () => string, why: RegExp]> = [
    ['an order', () => `${JSON.stringify(swap)}\n`, /it is not signed/],
    ['a removal', () => '{"type":"unplaced","projectId":"proj_a"}\n', /it is not signed/],
    ['a welcome', () => '{"type":"welcome","version":"1","heartbeatMs":1,"hubs":["http://b"]}\n', /it is not signed/],
    ['a heartbeat', () => '{"type":"heartbeat"}\n', /it is not signed/],
    ['a doubled line', () => hub.sealed({ type: 'heartbeat' }).repeat(2), /it has the number \d+ instead of/],
    ['a gap', () => (hub.sealed({ type: 'heartbeat' }), hub.sealed({ type: 'heartbeat' })), /instead of/],
    ['a changed line', () => hub.sealed(swap).replace('"attempt":99', '"attempt":98'), /has not signed it/]
  ]
  for (const [what, text, why] of forgeries) {
    const before = stage.said.length
    hub.write(text())
    await until(() => stage.said.slice(before).some(line => why.test(line)))
    await until(() => stage.said.slice(before).some(line => /^Connected/.test(line)))
    t.match(stage.said.slice(before).join(), /The connection to the hub was lost: Refused a line of the hub/, what)
  }
  await hub.answer(hub.order(release, 'hold'), 'held')
  t.notOk(existsSync(`${stage.sites}/a/a`), 'nothing was put in place')
})

t.test('a hub with a new key is believed if the earlier key says so', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  hub.rotate()
  hub.tellKey()
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  hub.rotate()
  await hub.answer(hub.order(release, 'hold'), 'held')
  t.ok(
    stage.said.some(line => /Refused a line of the hub/.test(line)),
    'it was not told, and learned it with a new session'
  )
})

t.test('a recording of a session is of no use, nor is a server without the key', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const bodies: string[] = []
  const record = hub.recorded
  hub.cut()
  await until(() => record.sessions.length > 1)
  bodies.push(...record.sessions)
  hub.intercept = ({ url = '' }, response) =>
    url.endsWith('/session') ? Boolean(response.writeHead(200).end(bodies[0])) : false
  hub.cut()
  await until(() => stage.said.some(line => /does not have the key of the hub/.test(line)))
  hub.intercept = ({ url = '' }, response) =>
    url.endsWith('/session') ? Boolean(response.writeHead(200).end('{"success":true,"session":"s"}')) : false
  await until(() => stage.said.some(line => /Upgrade svc on the hub/.test(line)))
  t.equal(hub.streams(), 0)
  hub.intercept = null
  await hub.connected()
})

t.test('a machine becomes a node at the first hub that answers', async t => {
  const hub = await startFakeHub(t)
  const key = await openAgentKey(t.testdir())
  const { signal } = new AbortController()
  const createCallerOf = (address: string) => createCaller({ address, environment: {} })
  const about = { name: 'a', labels: { zone: 'eu' }, version: '1', key, createCaller: createCallerOf, signal }
  const token = hub.token()
  const hubs = ['http://127.0.0.1:1', hub.url]
  const identity = await enrol({ token, hubs, ...about })
  t.strictSame(identity, { hubs, nodeId: hub.nodeId(), name: 'a', hubKey: hubKeyOf(token) })
  await t.rejects(enrol({ token, hubs: [hub.url], ...about }), { code: 'enrollment_invalid' })

  const other = await startFakeHub(t)
  const foreign = `${hub.token().slice(0, -43)}${other.token().slice(-43)}`
  await t.rejects(enrol({ token: foreign, hubs: [hub.url], ...about }), { code: 'wrong_hub' })
  await t.rejects(enrol({ token: other.token(), hubs: ['http://127.0.0.1:1'], ...about }), {
    code: 'hub_unreachable',
    message: 'Cannot reach the hub http://127.0.0.1:1: connection refused'
  })
  hub.intercept = (_, response) => Boolean(response.writeHead(200).end('<html>'))
  await t.rejects(enrol({ token: hub.token(), hubs: [hub.url], ...about }), { code: 'bad_answer' })
})

t.test('a token names the key of its hub', async t => {
  const key = Buffer.alloc(32, 7)
  t.equal(hubKeyOf(`svcnode_a_b_${key.toString('base64url')}`), key.toString('base64'))
  t.throws(() => hubKeyOf('svcnode_ab'), { code: 'invalid_field' })
})
