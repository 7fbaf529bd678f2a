import t from 'tap'
import type { RolloutNode } from '../../../lib/model/rollout.js'
import { insertRollout } from '../../../lib/store/tables/rollouts.js'
import {
  countPhases,
  deleteRolloutNode,
  noteReport,
  putRolloutNodes,
  removeOldOutputs,
  rolloutNodes,
  storedRolloutNode,
  storedRolloutNodes
} from '../../../lib/store/tables/rollout-nodes.js'
import { aRollout, openFleet } from '../../support/fleet-stage.js'

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
