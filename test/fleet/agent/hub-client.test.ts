import t, { type Test } from 'tap'
import { createHubClient, type HubClient } from '../../../lib/fleet/agent/hub-client.js'
import { createKeyring } from '../../../lib/fleet/agent/from-hub.js'
import { enrol } from '../../../lib/fleet/agent/enrol.js'
import { openAgentKey } from '../../../lib/fleet/agent/identity.js'
import { createCaller } from '../../../lib/http/outgoing/caller.js'
import { startFakeHub, type FakeHub } from '../../support/fake-hub.js'

const { signal } = new AbortController()
const report = { method: 'POST', path: '/api/agent/reports', body: { answers: [] }, signal } as const
const caller = (address: string) => createCaller({ address, environment: {} })

async function clientOf(t: Test, hub: FakeHub, more: string[] = []): Promise<HubClient> {
  const key = await openAgentKey(t.testdir())
  const hubs = [hub.url]
  const about = { hubs, name: 'a', labels: {}, version: '1', key, createCaller: caller, signal }
  const { nodeId, hubKey } = await enrol({ token: hub.token(), ...about })
  const keyring = createKeyring(hubKey, () => {})
  const client = createHubClient({ nodeId, key, keyring, hubs: [...hubs, ...more], createCaller: caller })
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
