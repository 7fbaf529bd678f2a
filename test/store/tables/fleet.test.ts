import t from 'tap'
import { insertDeployment } from '../../../lib/store/tables/deployments.js'
import {
  copiesOf,
  countEnrollments,
  countNodes,
  countPlacements,
  deleteEnrollment,
  deleteNode,
  deletePlacement,
  dropCopies,
  dropCopiesOf,
  findEnrollment,
  findEnrollmentByDigest,
  findNode,
  findNodeByName,
  findPlacement,
  findQueuedRelease,
  insertEnrollment,
  insertNode,
  isPlaced,
  listEnrollments,
  listNodes,
  listPlacements,
  movePlacement,
  nodesOfProject,
  noteLive,
  noteSeen,
  putCopy,
  putQueuedRelease,
  removeExpiredEnrollments,
  type StoredEnrollment,
  updateNode,
  useEnrollment
} from '../../../lib/store/tables/fleet.js'
import { deleteProject, insertProject } from '../../../lib/store/tables/projects.js'
import { aNode, openFleet } from '../../support/fleet-stage.js'
import { openStage } from '../../support/store.js'
import { aDeployment, aProject } from '../stage.js'

t.test('keeps nodes', async t => {
  const { store } = await openStage(t)
  const [a, b] = [aNode('a', { labels: { zone: 'eu' } }), aNode('b', { name: 'Anna' })]
  await store.write(tx => {
    insertNode(tx, a)
    insertNode(tx, b)
  })
  t.same(listNodes(store), [b, a], 'by name')
  t.same(findNode(store, 'node_a'), a)
  t.same(findNodeByName(store, 'PLANT-A'), a, 'whatever the case')
  t.equal(countNodes(store), 2)
  await t.rejects(
    store.write(tx => insertNode(tx, aNode('c', { name: 'anna' }))),
    /UNIQUE/
  )
  await store.write(tx => updateNode(tx, 'node_b', { isDrained: true, labels: { rack: '1' } }))
  t.match(findNode(store, 'node_b'), { isDrained: true, labels: { rack: '1' } })
  await store.write(tx =>
    noteSeen(tx, [
      ['node_a', '2030-01-02T00:00:00.000Z'],
      ['node_gone', '2030-01-02T00:00:00.000Z']
    ])
  )
  t.equal(findNode(store, 'node_a')?.lastSeenAt, '2030-01-02T00:00:00.000Z')
  t.equal(findNode(store, 'node_b')?.lastSeenAt, null)
})

t.test('removes the placements of a node with it', async t => {
  const { store } = await openFleet(t, ['b', 'a'])
  t.same(
    nodesOfProject(store, 'proj_a').map(({ name }) => name),
    ['plant-a', 'plant-b']
  )
  t.equal(await store.write(tx => deleteNode(tx, 'node_a')), true)
  t.equal(await store.write(tx => deleteNode(tx, 'node_a')), false)
  t.same(
    listPlacements(store).map(({ nodeId }) => nodeId),
    ['node_b']
  )
})

const one: StoredEnrollment = {
  id: 'enr_a',
  digest: 'd1',
  name: 'plant-a',
  labels: { zone: 'eu' },
  createdAt: '2030-01-01T00:00:00.000Z',
  createdBy: 'admin',
  expiresAt: '2030-01-01T01:00:00.000Z',
  nodeId: null
}
const two: StoredEnrollment = { ...one, id: 'enr_b', digest: 'd2', name: null, expiresAt: '2030-01-01T02:00:00.000Z' }

t.test('keeps enrollments until they expire', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    insertEnrollment(tx, one)
    insertEnrollment(tx, two)
  })
  t.same(listEnrollments(store, '2030-01-01T00:30:00.000Z'), [one, two])
  t.same(listEnrollments(store, one.expiresAt), [two])
  t.same(findEnrollment(store, 'enr_a'), one)
  t.same(findEnrollmentByDigest(store, 'd2'), two)
  t.equal(countEnrollments(store), 2)
  await store.write(tx => useEnrollment(tx, 'enr_b', 'node_a'))
  t.same(listEnrollments(store, one.expiresAt), [], 'a used one is not listed')
  t.same(findEnrollmentByDigest(store, 'd2'), { ...two, nodeId: 'node_a' })
  t.equal(countEnrollments(store), 1)
  t.equal(await store.write(tx => removeExpiredEnrollments(tx, one.expiresAt)), 1)
  t.equal(findEnrollmentByDigest(store, 'd1'), undefined)
  t.equal(await store.write(tx => deleteEnrollment(tx, 'enr_b')), true)
  t.equal(await store.write(tx => deleteEnrollment(tx, 'enr_b')), false)
})

t.test('keeps placements, and what nodes say about them', async t => {
  const { store } = await openFleet(t, ['b', 'a'])
  t.match(listPlacements(store, { projectId: 'proj_a' }), [
    { nodeName: 'plant-a', deployPath: '/srv/a', liveTree: null, isDrifted: false },
    { nodeName: 'plant-b' }
  ])
  t.equal(listPlacements(store, { nodeId: 'node_a' }).length, 1)
  t.same(listPlacements(store, { scope: ['proj_b'] }), [], 'outside of the scope')
  t.ok(isPlaced(store, 'proj_a'))
  t.notOk(isPlaced(store, 'proj_b'))
  t.equal(countPlacements(store), 2)
  const live = { liveDeployId: 'dep_a', liveTree: 'tree', seenAt: '2030-01-01T00:00:00.000Z', isDrifted: true }
  const place = { projectId: 'proj_a', nodeId: 'node_a' }
  t.equal(await store.write(tx => noteLive(tx, { ...place, ...live })), true)
  t.same(findPlacement(store, 'proj_a', 'node_a'), { ...place, ...live, deployPath: '/srv/a' })
  t.equal(await store.write(tx => movePlacement(tx, { ...place, ...live, deployPath: '/srv/b' })), true)
  t.equal(findPlacement(store, 'proj_a', 'node_a')?.deployPath, '/srv/b')
  t.equal(await store.write(tx => deletePlacement(tx, 'proj_a', 'node_a')), true)
  t.equal(await store.write(tx => deletePlacement(tx, 'proj_a', 'node_a')), false)
})

t.test('removes the placements of a project with it', async t => {
  const { store } = await openFleet(t, ['a'])
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.equal(countPlacements(store), 0)
})

t.test('keeps what was sent for queued deployments only', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    insertProject(tx, aProject({ tagIds: [] }))
    insertDeployment(tx, aDeployment({ id: 'dep_a', status: 'queued' }))
    insertDeployment(tx, aDeployment({ id: 'dep_b', status: 'running' }))
    putQueuedRelease(tx, 'dep_a', { sealed: 'text', rollout: { canary: 2 }, role: 'deployer' })
    putQueuedRelease(tx, 'dep_b', { sealed: null, rollout: {}, role: null })
  })
  t.strictSame(findQueuedRelease(store, 'dep_a'), { sealed: 'text', rollout: { canary: 2 }, role: 'deployer' })
  t.strictSame(findQueuedRelease(store, 'dep_b'), { sealed: null, rollout: {}, role: null })
  t.equal(findQueuedRelease(store, 'dep_c'), undefined)
  await store.write(tx => {
    insertDeployment(tx, aDeployment({ id: 'dep_c', status: 'queued' }))
    putQueuedRelease(tx, 'dep_c', { sealed: null, rollout: {}, role: null })
  })
  t.equal(findQueuedRelease(store, 'dep_b'), undefined)
  t.ok(findQueuedRelease(store, 'dep_a'))
})

t.test('knows the hubs that have an archive', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    for (const hub of ['h2', 'h1', 'h2']) putCopy(tx, { deployId: 'dep_a', hub })
    putCopy(tx, { deployId: 'dep_b', hub: 'h2' })
  })
  t.strictSame(copiesOf(store, 'dep_a'), ['h1', 'h2'])
  await store.write(tx => dropCopiesOf(tx, 'h2'))
  t.strictSame(copiesOf(store, 'dep_a'), ['h1'])
  t.equal(await store.write(dropCopies), 1, 'there is no such deployment')
  t.strictSame(copiesOf(store, 'dep_a'), [])
})
