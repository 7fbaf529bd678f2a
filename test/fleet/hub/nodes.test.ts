import t from 'tap'
import { listAudit } from '../../../lib/core/store/tables/audit.js'
import { countNodes, deleteNode, findNode, findNodeByName, insertNode } from '../../../lib/core/store/tables/fleet.js'
import { storedRolloutNode } from '../../../lib/core/store/tables/rollouts.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { ana, aNode, openFleet } from '../../support/fleet-stage.js'
import { fleetLimits } from '../../../lib/model/node.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { addDeployment, placeDeployment } from '../../../lib/core/store/tables/deployments.js'
import { aDeployment, aProject } from '../../core/store/stage.js'

t.test('lists nodes by name, label, project and scope', async t => {
  const { hub } = await openFleet(t, ['b', 'a'])
  await hub.nodes.update('node_a', { labels: { zone: 'eu' } }, ana)
  const names = (query?: Parameters<typeof hub.nodes.list>[0]) => hub.nodes.list(query).map(({ name }) => name)
  t.same(names(), ['plant-a', 'plant-b'])
  t.same(names({ label: { key: 'zone', value: 'eu' } }), ['plant-a'])
  t.same(names({ projectId: 'proj_a' }), ['plant-a', 'plant-b'])
  t.same(names({ projectId: 'proj_b' }), [])
  t.same(names({ scope: ['proj_b'] }), [], 'not a node without a project of the scope')
  t.match(hub.nodes.get('PLANT-A'), { id: 'node_a', isConnected: false, placements: [{ projectName: 'Site' }] })
  t.throws(() => hub.nodes.get('node_a', ['proj_b']), { code: 'not_found' })
})

t.test('renames, drains and forgets nodes, and records it', async t => {
  const { hub, store, ended } = await openFleet(t, ['a', 'b'])
  t.match(await hub.nodes.update('plant-a', { name: 'north' }, ana), { name: 'north' })
  await t.rejects(hub.nodes.update('north', { name: 'PLANT-B' }, ana), { code: 'name_taken' })
  t.match(await hub.nodes.drain('north', true, ana), { isDrained: true })
  await hub.nodes.drain('north', true, ana)
  t.match(await hub.nodes.drain('north', false, ana), { isDrained: false })
  await hub.nodes.forget('north', ana)
  t.equal(findNode(store, 'node_a'), undefined)
  t.same(ended, ['node_a'], 'its sessions have ended')
  await t.rejects(hub.nodes.forget('north', ana), { code: 'not_found' })
  t.same(
    listAudit(store, { limit: 10 }).map(({ action, target, actor }) => [action, target, actor]),
    ['node.forget', 'node.undrain', 'node.drain', 'node.update'].map(action => [action, 'node_a', 'token:ana'])
  )
})

t.test('leaves a drained node out of a rollout, and continues without a forgotten one', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub, store } = stage
  const id = await beginRollout(stage)
  t.equal(storedRolloutNode(store, id, 'node_b')?.phase, 'preparing')
  await hub.nodes.drain('node_b', true, ana)
  t.equal(storedRolloutNode(store, id, 'node_b')?.phase, 'skipped')
  await hub.nodes.forget('node_a', ana)
  t.equal(hub.rollouts.get(id).state, 'done', 'nobody is left to wait for')
})

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
  const again = () => hub.enrollments.create({ name: 'North', labels: {}, seconds: 60 }, ana)
  await t.rejects(again(), { code: 'name_taken', message: chosen.enrollment.id }, 'two open enrollments of one name')
  await hub.enrollments.revoke(chosen.enrollment.id, ana)
  chosen.token = (await again()).token
  const other = { ...machine, publicKey: Buffer.alloc(32, 8).toString('base64') }
  t.equal((await hub.agents.enroll({ ...other, token: chosen.token }, from)).name, 'North')
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

t.test('places a project on nodes, with its own directory or another one', async t => {
  const { hub, store } = await openFleet(t)
  await store.write(tx => ['a', 'b'].forEach(letter => insertNode(tx, aNode(letter))))
  const add = [{ node: 'plant-a' }, { node: 'node_b', deployPath: '/data/site/' }]
  await store.write(tx => {
    addDeployment(tx, aDeployment())
    placeDeployment(tx, 'dep_a')
  })
  t.match(await hub.placements.change('proj_a', { add, remove: [] }, ana), {
    placements: [
      { nodeName: 'plant-a', deployPath: '/srv/proj_a' },
      { nodeName: 'plant-b', deployPath: '/data/site' }
    ],
    left: '/srv/proj_a'
  })
  const again = await hub.placements.change('proj_a', { add: [{ node: 'plant-b' }], remove: [] }, ana)
  t.equal(again.placements.length, 2)
  t.notOk('left' in again, 'only the first nodes take over from the server')
  const elsewhere = [{ node: 'plant-a', deployPath: '/srv/other' }]
  await t.rejects(hub.placements.change('proj_a', { add: elsewhere, remove: [] }, ana), { code: 'path_taken' })
  t.match(await hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana), {
    placements: [{ nodeName: 'plant-b' }]
  })
  await t.rejects(hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana), { code: 'not_found' })
  t.same(
    listAudit(store, { limit: 10 }).map(({ action, detail }) => [action, detail]),
    [
      ['placement.remove', 'plant-a'],
      ['placement.add', 'plant-b: /data/site'],
      ['placement.add', 'plant-a: /srv/proj_a']
    ]
  )
})

t.test('refuses directories that are none, and that overlap those of another project', async t => {
  const { hub, store } = await openFleet(t, ['a'])
  await store.write(tx => insertNode(tx, aNode('b')))
  const place = (node: string, deployPath: string) =>
    hub.placements.change('proj_a', { add: [{ node, deployPath }], remove: [] }, ana)
  for (const path of ['srv', '/', '/..', '/a\0b'])
    await t.rejects(place('plant-b', path), { code: 'invalid_field' }, JSON.stringify(path))
  await store.write(tx => insertProject(tx, aProject({ id: 'proj_b' })))
  const other = (deployPath: string) =>
    hub.placements.change('proj_b', { add: [{ node: 'plant-a', deployPath }], remove: [] }, ana)
  for (const path of ['/srv/a', '/srv/a/b', '/srv']) await t.rejects(other(path), { code: 'path_taken' }, path)
  t.equal((await other('/srv/ab')).placements.length, 1)
  t.equal((await place('plant-b', '/srv/ab')).placements.length, 2, 'the same directory on another node')
})

t.test('waits for the end of a deployment, and lets a new node take part in a rollout', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store, running } = stage
  await store.write(tx => ['b', 'c'].forEach(letter => insertNode(tx, aNode(letter))))
  const id = await beginRollout(stage)
  await hub.placements.change('proj_a', { add: [{ node: 'plant-b' }], remove: [] }, ana)
  t.equal(storedRolloutNode(store, id, 'node_b')?.phase, 'skipped', 'it is asked first what it has')
  await t.rejects(hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana), {
    code: 'rollout_in_progress'
  })
  await hub.rollouts.halt(id, null, ana)
  await hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana)
  t.equal(storedRolloutNode(store, id, 'node_a'), undefined)
  running.add('proj_a')
  await t.rejects(hub.placements.change('proj_a', { add: [], remove: ['plant-b'] }, ana), {
    code: 'rollout_in_progress'
  })
})
