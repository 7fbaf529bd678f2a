import t from 'tap'
import { enrol, hubKeyOf } from '../../../lib/fleet/agent/enrol.js'
import { openAgentKey } from '../../../lib/fleet/agent/identity.js'
import { createCaller } from '../../../lib/http/outgoing/caller.js'
import { startFakeHub } from '../../support/fake-hub.js'

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
  await t.rejects(enrol({ token: other.token(), hubs: ['http://127.0.0.1:1'], ...about }), { code: 'hub_unreachable' })
  hub.intercept = (_, response) => Boolean(response.writeHead(200).end('<html>'))
  await t.rejects(enrol({ token: hub.token(), hubs: [hub.url], ...about }), { code: 'bad_answer' })
})

t.test('a token names the key of its hub', async t => {
  const key = Buffer.alloc(32, 7)
  t.equal(hubKeyOf(`svcnode_a_b_${key.toString('base64url')}`), key.toString('base64'))
  t.throws(() => hubKeyOf('svcnode_ab'), { code: 'invalid_field' })
})
