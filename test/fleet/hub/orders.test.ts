import t from 'tap'
import { createLinks } from '../../../lib/fleet/hub/links.js'
import { createHistory, createOrders, ordersOf } from '../../../lib/fleet/hub/orders.js'
import type { DesiredLine } from '../../../lib/model/fleet-wire.js'
import { beginEpoch, currentEpoch, findNode, findPlacement, listEpochs } from '../../../lib/core/store/tables/fleet.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { openFleet } from '../../support/fleet-stage.js'
import { storedRolloutNode } from '../../../lib/core/store/tables/rollouts.js'

t.test('sends the orders of a node that is connected, with the history of the database', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { store, clock } = stage
  const links = createLinks(clock)
  let isHeld = true
  const orders = createOrders({ store, links, isHeld: () => isHeld, log: message => t.fail(message) })
  const lines: DesiredLine[] = []
  const sink = { signal: new AbortController().signal, sendHead() {}, async write() {} }
  const running = links.open({ nodeId: 'node_a', say: async given => (lines.push(...given), '') }).run(sink)
  const id = await beginRollout(stage)
  const given = ordersOf(store, 'node_a')
  t.match(given, [{ nodeId: 'node_a', order: { action: 'prepare', attempt: 1 }, rollout: { id } }])
  await store.write(tx => beginEpoch(tx, 'e1'))
  orders.send(given)
  await orders.sent()
  isHeld = false
  orders.send(given)
  orders.send(ordersOf(store, 'node_b'))
  await orders.sent()
  await store.write(tx => beginEpoch(tx, 'e2'))
  orders.send(given)
  await orders.sent()
  await new Promise(resolve => setImmediate(resolve))
  links.closeAll()
  await running
  const order = { projectId: 'proj_a', rolloutId: id, number: 1, action: 'prepare', deployId: 'dep_a' }
  t.match(lines, [
    { type: 'order', epoch: 'e1', ...order },
    { type: 'order', epoch: 'e2', ...order }
  ])
  t.equal(lines.length, 2)
})

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

t.test('a history begins after a restore, or because of a node, but not without end', async t => {
  const { store, ids, clock } = await openFleet(t, ['a'])
  const audited: string[] = []
  const history = createHistory({ clock, ids, audit: { within: (_, { detail }) => void audited.push(String(detail)) } })
  await store.write(tx => (history.ensure(tx), history.ensure(tx)))
  const first = currentEpoch(store)
  t.same([first !== '', listEpochs(store).length, audited], [true, 1, []])
  await store.write(tx => history.begin(tx, 'restored'))
  t.not(currentEpoch(store), first)
  const asks = (nodeId: string) => store.write(tx => history.beginFor(tx, nodeId, `node ${nodeId}`))
  t.same([await asks('a'), await asks('a'), await asks('b')], [true, false, true])
  t.same(audited, ['restored', 'node a', 'node b'])
  t.equal(listEpochs(store).length, 4)
})
