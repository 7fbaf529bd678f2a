import t from 'tap'
import { listEpochs } from '../../../lib/store/tables/cluster.js'
import { findNode, findPlacement } from '../../../lib/store/tables/fleet.js'
import { storedRolloutNode } from '../../../lib/store/tables/rollouts.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { openFleet } from '../../support/fleet-stage.js'

const quiet = { version: '2.0.0', freeBytes: 1000, answers: [], placements: [] }

t.test('writes what is new, in one transaction, and nothing for a repeated report', async t => {
  const { hub, store } = await openFleet(t, ['a'])
  const live = { projectId: 'proj_a', liveDeployId: 'dep_a', liveTree: 'tree', isDrifted: false }
  const before = store.sequence()
  await hub.agents.report('node_a', { ...quiet, placements: [live] })
  t.equal(store.sequence(), before + 1)
  t.match(findPlacement(store, 'proj_a', 'node_a'), { ...live, seenAt: '2030-01-01T00:00:00.000Z' })
  t.match(findNode(store, 'node_a'), { version: '2.0.0', freeBytes: 1000 })
  await hub.agents.report('node_a', { ...quiet, freeBytes: 1049, placements: [live] })
  t.equal(store.sequence(), before + 1, 'a little less space is no news')
  await hub.agents.report('node_a', { ...quiet, freeBytes: 1051, placements: [{ ...live, isDrifted: true }] })
  t.equal(store.sequence(), before + 2)
  t.match(findPlacement(store, 'proj_a', 'node_a'), { isDrifted: true })
  await hub.agents.report('node_gone', quiet)
  t.equal(store.sequence(), before + 2, 'nor what a forgotten node says')
})

t.test('takes answers to the newest order only, and keeps what the node says about its deployment', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store } = stage
  const id = await beginRollout(stage)
  const phase = () => storedRolloutNode(store, id, 'node_a')?.phase
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'prepared', attempt: 7 }))
  await hub.agents.report('node_a', answerOf(stage, { id: 'ro_other', nodeId: 'node_a', answer: 'prepared' }))
  t.equal(phase(), 'preparing')
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'prepared', tookMs: 5 }))
  t.equal(phase(), 'swapping', 'the only node is the first wave')
  const failed = { error: 'check answered 502', failedStep: 'check', output: 'the end', tookMs: 2100 }
  const report = answerOf(stage, { id, nodeId: 'node_a', answer: 'failed', ...failed })
  await hub.agents.report('node_a', report)
  t.match(storedRolloutNode(store, id, 'node_a'), { phase: 'failed', ...failed })
  t.match(hub.rollouts.get(id), { state: 'halted', haltedReason: '1 failed (allowed: 0)' })
  const before = store.sequence()
  await hub.agents.report('node_a', report)
  t.equal(hub.rollouts.get(id).state, 'halted')
  t.equal(store.sequence(), before, 'a doubled report changes nothing')
})

t.test('a node that knows a later rollout lets another history begin, once; then its answer is shown', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store } = stage
  const id = await beginRollout(stage)
  const ignored = () => answerOf(stage, { id, nodeId: 'node_a', answer: 'ignored', error: 'It knows ro_9' })
  await hub.agents.report('node_a', { ...ignored(), answers: ignored().answers.map(each => ({ ...each, attempt: 9 })) })
  t.same(listEpochs(store), [], 'it was not about the newest order')
  await hub.agents.report('node_a', ignored())
  t.equal(listEpochs(store).length, 1)
  t.match(storedRolloutNode(store, id, 'node_a'), { phase: 'preparing' })
  await hub.agents.report('node_a', ignored())
  t.equal(listEpochs(store).length, 1)
  t.match(storedRolloutNode(store, id, 'node_a'), { phase: 'failed', error: 'It knows ro_9' })
})
