import t from 'tap'
import type { RolloutNode } from '../../../../lib/model/rollout.js'
import { insertDeployment, updateDeployment } from '../../../../lib/core/store/tables/deployments.js'
import {
  archiveForNode,
  countPhases,
  countRollouts,
  deleteRolloutNode,
  findRollout,
  goingProjects,
  insertRollout,
  lastRollout,
  listRollouts,
  nextRolloutNumber,
  noteReport,
  putRolloutNodes,
  removeOldOutputs,
  removeOldRollouts,
  rolloutNodes,
  rolloutOfDeployment,
  storedRolloutNode,
  storedRolloutNodes,
  troubledNodes,
  updateRollout
} from '../../../../lib/core/store/tables/rollouts.js'
import { aRollout, openFleet } from '../../../support/fleet-stage.js'
import { aDeployment } from '../stage.js'

t.test('keeps rollouts', async t => {
  const { store } = await openFleet(t)
  t.equal(nextRolloutNumber(store, 'proj_a'), 1)
  const [first, second] = [
    aRollout({ state: 'swapping' }),
    aRollout({ id: 'ro_b', number: 2, deployId: 'dep_b', state: 'done', sealed: 'v1.x' }, { pause: 'approve' })
  ]
  await store.write(tx => {
    insertRollout(tx, first)
    insertRollout(tx, second)
  })
  t.same(findRollout(store, 'ro_a'), first)
  t.same(lastRollout(store, 'proj_a'), second)
  t.same(rolloutOfDeployment(store, 'dep_a'), first)
  t.equal(nextRolloutNumber(store, 'proj_a'), 3)
  t.same(goingProjects(store), [], 'an earlier rollout gives no orders')
  t.same(countRollouts(store), { done: 1 })
  await store.write(tx => updateRollout(tx, 'ro_b', { state: 'approval', wave: 1 }))
  t.same(goingProjects(store), ['proj_a'])
  t.match(findRollout(store, 'ro_b'), { state: 'approval', wave: 1 })
})

t.test('lists rollouts, the newest first', async t => {
  const { store } = await openFleet(t)
  await store.write(tx => {
    for (const number of [1, 2, 3]) insertRollout(tx, aRollout({ id: `ro_${number}`, number }))
  })
  const list = (query: object) => listRollouts(store, { limit: 10, ...query }).map(({ id }) => id)
  t.same(list({}), ['ro_3', 'ro_2', 'ro_1'])
  t.same(list({ before: 'ro_3', limit: 1 }), ['ro_2'])
  t.same(list({ state: 'done' }), [])
  t.same(list({ scope: [] }), [])
  t.match(listRollouts(store, { limit: 1 }), [{ projectName: 'Site' }])
  await store.write(tx => removeOldRollouts(tx, 'proj_a', 2))
  t.same(list({}), ['ro_3', 'ro_2'])
})

t.test('finds an archive that is still there among those with the same contents', async t => {
  const { store } = await openFleet(t, ['a'])
  const found = () => archiveForNode(store, 'node_a', 'archive')
  t.equal(found(), undefined)
  await store.write(tx => {
    for (const [number, letter] of ['a', 'b'].entries()) {
      insertDeployment(tx, aDeployment({ id: `dep_${letter}`, hasArtifact: true }))
      insertRollout(tx, aRollout({ id: `ro_${letter}`, number, deployId: `dep_${letter}` }))
    }
  })
  t.equal(found(), 'dep_b')
  await store.write(tx => updateDeployment(tx, 'dep_b', { hasArtifact: false }))
  t.equal(found(), 'dep_a')
  t.equal(archiveForNode(store, 'node_b', 'archive'), undefined, 'no project of this node')
})

const node = (letter: string, given: Partial<RolloutNode> = {}): RolloutNode => ({
  nodeId: `node_${letter}`,
  wave: 1,
  phase: 'pending',
  attempt: 0,
  swapAttempt: 0,
  hasBegun: false,
  error: null,
  updatedAt: '2030-01-01T00:00:00.000Z',
  ...given
})

t.test('keeps the nodes of a rollout in the order of their waves', async t => {
  const { store } = await openFleet(t, ['a', 'b', 'c'])
  const nodes = [node('c'), node('b', { wave: 2 }), node('a', { wave: 2 })]
  await store.write(tx => {
    insertRollout(tx, aRollout())
    putRolloutNodes(tx, 'ro_a', { nodes, position: 0 })
  })
  t.same(rolloutNodes(store, 'ro_a'), nodes)
  t.same(
    storedRolloutNodes(store, 'ro_a').map(({ nodeName }) => nodeName),
    ['plant-c', 'plant-a', 'plant-b'],
    'by wave, then by name'
  )
  const changed = node('b', {
    wave: 2,
    phase: 'failed',
    attempt: 3,
    swapAttempt: 2,
    hasBegun: true,
    error: 'It "broke"'
  })
  await store.write(tx => {
    putRolloutNodes(tx, 'ro_a', { nodes: [changed], position: 0 })
    noteReport(tx, { rolloutId: 'ro_a', nodeId: 'node_b' }, { failedStep: 'check', output: 'out', tookMs: 12 })
  })
  t.same(rolloutNodes(store, 'ro_a'), [node('c'), changed, node('a', { wave: 2 })], 'the order stays')
  t.match(storedRolloutNode(store, 'ro_a', 'node_b'), { ...changed, failedStep: 'check', output: 'out', tookMs: 12 })
  t.same(countPhases(store, 'ro_a'), { failed: 1, pending: 2 })
  await store.write(tx => deleteRolloutNode(tx, 'ro_a', 'node_a'))
  t.equal(storedRolloutNode(store, 'ro_a', 'node_a'), undefined)
})

t.test('finds the nodes that need attention in the last rollout of a project', async t => {
  const { store } = await openFleet(t, ['a', 'b', 'c'])
  const nodes = [node('a', { phase: 'failed' }), node('b', { phase: 'good' }), node('c', { phase: 'stuck' })]
  await store.write(tx => {
    insertRollout(tx, aRollout({ state: 'halted' }))
    putRolloutNodes(tx, 'ro_a', { nodes, position: 0 })
  })
  const found = () => troubledNodes(store).map(({ nodeId, phase }) => `${nodeId} ${phase}`)
  t.same(found().sort(), ['node_a failed', 'node_c stuck'])
  await store.write(tx => updateRollout(tx, 'ro_a', { state: 'reverted' }))
  t.same(found(), [])
  await store.write(tx => {
    updateRollout(tx, 'ro_a', { state: 'halted' })
    insertRollout(tx, aRollout({ id: 'ro_b', number: 2 }))
    putRolloutNodes(tx, 'ro_b', { nodes: [node('b', { phase: 'unreachable' })], position: 0 })
  })
  t.same(found(), ['node_b unreachable'], 'a later rollout counts')
})

t.test('reads an error of an earlier version without the command of a check', async t => {
  const { store } = await openFleet(t, ['a'])
  const error = 'The check command "curl -u admin:secret" failed: exit code 1'
  await store.write(tx => {
    insertRollout(tx, aRollout())
    putRolloutNodes(tx, 'ro_a', { nodes: [node('a', { error })], position: 0 })
  })
  const without = 'The check command failed: exit code 1'
  t.match(
    [...rolloutNodes(store, 'ro_a'), ...storedRolloutNodes(store, 'ro_a')],
    [{ error: without }, { error: without }]
  )
})

t.test('removes the outputs of earlier rollouts, but not of nodes that failed', async t => {
  const { store } = await openFleet(t, ['a', 'b'])
  await store.write(tx => {
    for (const [id, number] of [
      ['ro_1', 1],
      ['ro_2', 2]
    ] as const) {
      insertRollout(tx, aRollout({ id, number }))
      putRolloutNodes(tx, id, { nodes: [node('a', { phase: 'good' }), node('b', { phase: 'failed' })], position: 0 })
      for (const nodeId of ['node_a', 'node_b'])
        noteReport(tx, { rolloutId: id, nodeId }, { failedStep: null, output: 'out', tookMs: 1 })
    }
    removeOldOutputs(tx, 'proj_a', 2)
  })
  const outputs = (id: string) => storedRolloutNodes(store, id).map(({ output }) => output)
  t.same(outputs('ro_1'), [null, 'out'])
  t.same(outputs('ro_2'), ['out', 'out'])
})
