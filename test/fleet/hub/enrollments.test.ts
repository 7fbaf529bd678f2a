import t from 'tap'
import { fleetLimits } from '../../../lib/model/node.js'
import { countNodes, deleteNode, findNode, findNodeByName, insertNode } from '../../../lib/store/tables/fleet.js'
import { aNode, ana, openFleet } from '../../support/fleet-stage.js'

const publicKey = Buffer.alloc(32, 7).toString('base64')
const machine = { publicKey, name: 'plant-a', labels: { os: 'linux' }, version: '2.0.0' }
const from = { ip: '192.0.2.7' }

t.test('makes a machine a node, once', async t => {
  const { hub, store } = await openFleet(t)
  const given = { name: null, labels: { zone: 'eu' }, seconds: 60 }
  const { token, enrollment } = await hub.enrollments.create(given, ana)
  t.match(token, /^svcnode_[A-Za-z0-9-]{43}_[A-Za-z0-9_-]{43}$/)
  t.same(hub.enrollments.list(), [enrollment])
  t.notMatch(JSON.stringify(enrollment), token.split('_')[1], 'the secret is not kept')
  const answer = await hub.agents.enroll({ ...machine, token }, from)
  t.match(answer, { name: 'plant-a', hubKey: (await hub.key.current()).publicKey })
  t.equal(Buffer.from(answer.hubKey, 'base64').toString('base64url'), token.split('_').slice(2).join('_'))
  t.match(findNode(store, answer.nodeId), { labels: { os: 'linux', zone: 'eu' }, publicKey, version: '2.0.0' })
  t.same(hub.enrollments.list(), [])
  await t.rejects(hub.enrollments.revoke(enrollment.id, ana), { code: 'not_found' }, 'a used one cannot be revoked')
})

t.test('the same machine gets the same answer again until the token expires; another machine gets none', async t => {
  const { hub, store, clock } = await openFleet(t)
  const { token } = await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  const answer = await hub.agents.enroll({ ...machine, token }, from)
  t.same(await hub.agents.enroll({ ...machine, name: 'other', token }, from), answer)
  t.equal(countNodes(store), 1)
  const other = { ...machine, publicKey: Buffer.alloc(32, 8).toString('base64') }
  await t.rejects(hub.agents.enroll({ ...other, token }, from), { code: 'enrollment_invalid' })
  clock.advance(60_000)
  await t.rejects(hub.agents.enroll({ ...machine, token }, from), { code: 'enrollment_invalid' })
  const next = await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  t.equal((await hub.agents.enroll({ ...other, token: next.token }, from)).name, 'plant-a-2')
  await store.write(tx => void deleteNode(tx, findNodeByName(tx, 'plant-a-2')?.id as string))
  await t.rejects(hub.agents.enroll({ ...other, token: next.token }, from), { code: 'enrollment_invalid' })
  t.equal(countNodes(store), 1, 'a node that was forgotten does not come back with its token')
})

t.test('gives a proposed name that is taken a number, and keeps a name that was chosen', async t => {
  const { hub } = await openFleet(t, ['a'])
  const { token } = await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  t.equal((await hub.agents.enroll({ ...machine, token }, from)).name, 'plant-a-2')
  await t.rejects(hub.enrollments.create({ name: 'PLANT-A', labels: {}, seconds: 60 }, ana), { code: 'name_taken' })
  const chosen = await hub.enrollments.create({ name: 'north', labels: {}, seconds: 60 }, ana)
  const other = { ...machine, publicKey: Buffer.alloc(32, 8).toString('base64') }
  t.equal((await hub.agents.enroll({ ...other, token: chosen.token }, from)).name, 'north')
})

t.test('refuses expired, revoked and unknown tokens, and keys that are none', async t => {
  const { hub, clock } = await openFleet(t)
  const create = () => hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  const [revoked, expired] = [await create(), await create()]
  await hub.enrollments.revoke(revoked.enrollment.id, ana)
  await t.rejects(hub.enrollments.revoke(revoked.enrollment.id, ana), { code: 'not_found' })
  await t.rejects(hub.agents.enroll({ ...machine, publicKey: 'AAAA', token: expired.token }, from), {
    code: 'invalid_field'
  })
  clock.advance(60_000)
  for (const token of [revoked.token, expired.token, 'svcnode_x_y', ''])
    await t.rejects(hub.agents.enroll({ ...machine, token }, from), { code: 'enrollment_invalid' })
  t.same(hub.enrollments.list(), [])
})

t.test('limits the number of open tokens', async t => {
  const { hub, store } = await openFleet(t)
  await store.write(tx => {
    for (let n = 0; n < fleetLimits.enrollments; n++)
      tx.run(`INSERT INTO enrollments VALUES ('enr_${n}', 'd${n}', NULL, '{}', 'x', 'ana', '2031-01-01', NULL)`)
  })
  await t.rejects(hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana), {
    code: 'too_many_enrollments'
  })
})

t.test('a hub has at most 10,000 nodes', async t => {
  const { hub, store } = await openFleet(t)
  await store.write(tx => {
    for (let n = 1; n < fleetLimits.nodes; n++)
      insertNode(tx, aNode('x', { id: `node_${n}`, name: `n${n}`, publicKey: `key ${n}` }))
  })
  const enroll = async (byte: number) => {
    const { token } = await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
    return hub.agents.enroll({ ...machine, publicKey: Buffer.alloc(32, byte).toString('base64'), token }, from)
  }
  const last = await enroll(1)
  t.equal(countNodes(store), 10_000)
  await t.rejects(enroll(2), { code: 'too_many_nodes', message: /the fleet has 10000\. Forget some/ })
  await store.write(tx => void deleteNode(tx, last.nodeId))
  t.ok((await enroll(3)).nodeId)
})
