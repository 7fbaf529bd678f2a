import t from 'tap'
import { insertDeployment } from '../../../../lib/core/store/tables/deployments.js'
import {
  beginEpoch,
  clearSecrets,
  copiesOf,
  countEnrollments,
  countNodes,
  countPlacements,
  currentEpoch,
  deleteEnrollment,
  deleteHubDeployments,
  deleteNode,
  deletePlacement,
  dropCopies,
  dropCopiesOf,
  findEnrollment,
  findEnrollmentByDigest,
  findHubDeployment,
  findNode,
  findNodeByName,
  findPlacement,
  findQueuedRelease,
  findSecret,
  hasHubDeployment,
  insertEnrollment,
  insertHubDeployment,
  insertHubKey,
  insertNode,
  isPlaced,
  listDuties,
  listEnrollments,
  listEpochs,
  listHubKeys,
  listNodes,
  listPlacements,
  nodesOfProject,
  noteLive,
  noteSeen,
  putCopy,
  putDuty,
  putQueuedRelease,
  putSecret,
  removeExpiredEnrollments,
  type StoredEnrollment,
  updateNode,
  useEnrollment
} from '../../../../lib/core/store/tables/fleet.js'
import { deleteProject, insertProject } from '../../../../lib/core/store/tables/projects.js'
import { aNode, openFleet } from '../../../support/fleet-stage.js'
import { openStage } from '../../../support/store.js'
import { aDeployment, aProject, aStore } from '../stage.js'
import type { Duty } from '../../../../lib/model/fleet-wire.js'

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
    putQueuedRelease(tx, 'dep_a', {
      sealed: 'text',
      rollout: { canary: 2 },
      role: 'deployer',
      plan: 'text',
      isForNodes: true
    })
    putQueuedRelease(tx, 'dep_b', { sealed: null, rollout: {}, role: null, plan: null, isForNodes: false })
  })
  t.strictSame(findQueuedRelease(store, 'dep_a'), {
    sealed: 'text',
    rollout: { canary: 2 },
    role: 'deployer',
    plan: 'text',
    isForNodes: true
  })
  t.strictSame(findQueuedRelease(store, 'dep_b'), {
    sealed: null,
    rollout: {},
    role: null,
    plan: null,
    isForNodes: false
  })
  t.equal(findQueuedRelease(store, 'dep_c'), undefined)
  await store.write(tx => {
    insertDeployment(tx, aDeployment({ id: 'dep_c', status: 'queued' }))
    putQueuedRelease(tx, 'dep_c', { sealed: null, rollout: {}, role: null, plan: null, isForNodes: false })
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

const duty: Duty = {
  projectId: 'proj_a',
  nodeId: 'node_a',
  isRemoved: false,
  state: {
    epoch: 'e',
    rolloutId: 'ro_1',
    number: 1,
    attempt: 2,
    action: 'swap',
    hasPrepared: true,
    outcome: 'begun',
    doneAttempt: 2,
    error: null
  },
  before: null,
  release: { deployId: 'dep_1', treeSha256: 'aa', archiveSha256: 'bb', archiveBytes: 10 },
  swapId: 'dep_local',
  undoId: null,
  failedStep: null,
  output: null,
  tookMs: null
}

t.test('a duty is replaced and listed', async t => {
  const store = await aStore(t)
  const other = { ...duty, projectId: 'proj_b' }
  await store.write(tx => void (putDuty(tx, other), putDuty(tx, { ...duty, swapId: null }), putDuty(tx, duty)))
  t.strictSame(listDuties(store), [duty, other])
})

t.test('a duty of an earlier version is read', async t => {
  const store = await aStore(t)
  const { epoch: _, ...state } = duty.state
  const { nodeId: __, isRemoved: ___, ...earlier } = duty
  await store.write(tx => putDuty(tx, { ...earlier, state } as Duty))
  t.match(listDuties(store)[0], {
    nodeId: '',
    isRemoved: false,
    swapId: 'dep_local',
    state: { epoch: '', number: 1 }
  })
})

t.test('the deployments that the hub asked for are remembered until their records are removed', async t => {
  const store = await aStore(t)
  const made = (id: string, projectId: string) => ({ id, projectId, deployId: id === 'dep_2' ? null : 'dep_hub' })
  await store.write(tx => insertHubDeployment(tx, made('dep_1', 'proj_a')))
  t.strictSame(findHubDeployment(store, 'dep_1'), made('dep_1', 'proj_a'))
  await store.write(tx => insertHubDeployment(tx, made('dep_3', 'proj_b')))
  await store.write(tx => insertHubDeployment(tx, made('dep_2', 'proj_a')))
  t.equal(findHubDeployment(store, 'dep_1'), undefined, 'it has no record')
  t.strictSame(findHubDeployment(store, 'dep_2'), made('dep_2', 'proj_a'))
  t.ok(hasHubDeployment(store, 'proj_a'))
  await store.write(tx => deleteHubDeployments(tx, 'proj_a'))
  t.notOk(hasHubDeployment(store, 'proj_a'))
  t.equal(findHubDeployment(store, 'dep_2'), undefined)
  t.strictSame(findHubDeployment(store, 'dep_3'), made('dep_3', 'proj_b'))
})

t.test('keeps the keys of a server in their order', async t => {
  const { store } = await openStage(t)
  const keys = ['b', 'a'].map(publicKey => ({ publicKey, signature: `of ${publicKey}` }))
  await store.write(tx => {
    for (const key of keys) insertHubKey(tx, key)
  })
  t.same(listHubKeys(store), keys)
})

t.test('keeps one value of each secret', async t => {
  const { store } = await openStage(t)
  t.equal(findSecret(store, 'adminToken'), null)
  await store.write(tx => putSecret(tx, 'adminToken', 'one'))
  await store.write(tx => putSecret(tx, 'adminToken', 'two'))
  t.equal(findSecret(store, 'adminToken'), 'two')
  await store.write(clearSecrets)
  t.equal(findSecret(store, 'adminToken'), null)
})

t.test('the last epoch is the current one, and the last ones are kept', async t => {
  const store = await aStore(t)
  t.equal(currentEpoch(store), '')
  await store.write(tx => ['a', 'b', 'a'].forEach(epoch => beginEpoch(tx, epoch)))
  t.same([currentEpoch(store), listEpochs(store)], ['b', ['a', 'b']])
  await store.write(tx => Array.from({ length: 300 }, (_, at) => beginEpoch(tx, `e${at}`)))
  t.same([listEpochs(store).length, currentEpoch(store)], [200, 'e299'])
})
