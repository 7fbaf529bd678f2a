import t from 'tap'
import { createRollings, type NewOrder } from '../../../lib/fleet/hub/rolling.js'
import type { Store } from '../../../lib/core/store/database.js'
import { deleteRolloutNode, findRollout, listRollouts } from '../../../lib/core/store/tables/rollouts.js'
import { ana, aNode, aRollout, openFleet } from '../../support/fleet-stage.js'
import { insertNode, insertPlacement, updateNode } from '../../../lib/core/store/tables/fleet.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import type { NodeAnswer } from '../../../lib/model/rollout.js'
import { addDeployment } from '../../../lib/core/store/tables/deployments.js'
import { aDeployment } from '../../core/store/stage.js'
import { until } from '../../support/until.js'

const node = (nodeId: string) => ({
  nodeId,
  wave: 1,
  phase: 'pending' as const,
  attempt: 0,
  swapAttempt: 0,
  hasBegun: false,
  error: null,
  updatedAt: ''
})

/** Rollouts of a store whose writes fail when the test says so. */
async function openRollings(t: Parameters<typeof openFleet>[0]) {
  const { store: real, clock } = await openFleet(t, ['a', 'b'])
  let failure: Error | null = null
  const store: Store = {
    ...real,
    async write(work) {
      if (failure === null) return real.write(work)
      const error = failure
      await real.write(tx => {
        work(tx)
        throw error
      })
      throw error
    }
  }
  const sent: NewOrder[] = []
  const rollings = createRollings({ store, clock, send: orders => void sent.push(...orders), changed() {} })
  return { store, rollings, sent, fail: (error: Error | null) => void (failure = error) }
}

t.test('sends orders when they are on the disk, and continues from the store after a failure', async t => {
  const { store, rollings, sent, fail } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_a'), node('node_b')]).machine.start())
  t.same(
    sent.splice(0).map(({ nodeId, order }) => [nodeId, order.action, order.attempt]),
    [
      ['node_a', 'prepare', 1],
      ['node_b', 'prepare', 1]
    ]
  )
  const prepared = (nodeId: string) =>
    rollings.write(turn => turn.of('proj_a')?.machine.answer({ nodeId, attempt: 1, answer: 'prepared' }))
  fail(new Error('no space'))
  await t.rejects(prepared('node_a'), /no space/)
  t.same(sent, [])
  t.equal(rollings.read('proj_a')?.machine.node('node_a')?.phase, 'preparing', 'as in the store')
  fail(null)
  await prepared('node_a')
  await prepared('node_b')
  t.same(
    sent.map(({ nodeId, order }) => [nodeId, order.action, order.attempt]),
    [['node_a', 'swap', 2]],
    'and nothing that a node knows already'
  )
  t.equal(findRollout(store, 'ro_a')?.state, 'swapping')
  t.same(rollings.going(), ['proj_a'])
})

t.test('reads rollouts of the store, and forgets those that have ended after a while', async t => {
  const { store, rollings } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_a')]).machine.start())
  const again = createRollings({ store, clock: { now: () => 0 }, send() {}, changed() {} })
  t.equal(again.read('proj_a')?.machine.node('node_a')?.phase, 'preparing')
  t.equal(again.read('proj_a'), again.read('proj_a'), 'once')
  t.equal(again.read('proj_other'), null)
})

t.test('forgets a rollout that was left, if the write fails', async t => {
  const { rollings, fail } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_a')]).machine.start())
  const before = rollings.read('proj_a')
  before?.machine.halt('It is not written yet')
  fail(new Error('no space'))
  await t.rejects(
    rollings.write(turn => turn.leave('proj_a')),
    /no space/
  )
  t.equal(rollings.read('proj_a')?.stored.state, 'preparing', 'as in the store')
})

t.test('nodes have the same order after a restart', async t => {
  const { store, rollings } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_b')]).machine.start())
  await rollings.write(turn => turn.of('proj_a')?.machine.answer({ nodeId: 'node_b', attempt: 1, answer: 'prepared' }))
  const restarted = () => createRollings({ store, clock: { now: () => 0 }, send() {}, changed() {} })
  const orderOf = (all: typeof rollings) => [...(all.read('proj_a')?.machine.nodes ?? [])].map(({ nodeId }) => nodeId)
  await rollings.write(turn => turn.of('proj_a')?.machine.add('node_a'))
  t.same(orderOf(rollings), ['node_b', 'node_a'])
  t.same(orderOf(restarted()), ['node_b', 'node_a'])
  const again = restarted()
  await again.write(({ tx, of }) => {
    of('proj_a')?.machine.remove('node_b')
    deleteRolloutNode(tx, 'ro_a', 'node_b')
  })
  await again.write(turn => turn.of('proj_a')?.machine.add('node_b'))
  t.same(orderOf(again), ['node_a', 'node_b'])
  t.same(orderOf(restarted()), ['node_a', 'node_b'])
})

t.test('puts the nodes of a project into waves, and lets them prepare', async t => {
  const stage = await openFleet(t, ['a', 'b', 'c'])
  await stage.store.write(tx => updateNode(tx, 'node_c', { isDrained: true }))
  const id = await beginRollout(stage, { canary: 1, then: '1' })
  const { nodes, ...rollout } = stage.hub.rollouts.get(id)
  t.match(rollout, { number: 1, state: 'preparing', wave: 0, waves: 2, nodeCount: 3, projectName: 'Site' })
  t.same(rollout.counts, { preparing: 2, skipped: 1 })
  t.same(
    nodes.map(({ nodeName, wave, phase }) => [nodeName, wave, phase]),
    [
      ['plant-a', 1, 'preparing'],
      ['plant-b', 2, 'preparing'],
      ['plant-c', 2, 'skipped']
    ]
  )
  t.match(stage.hub.nodes.get('node_a'), { isConnected: false })
})

t.test('replaces an earlier rollout that is still going on', async t => {
  const stage = await openFleet(t, ['a'])
  const first = await beginRollout(stage)
  const second = await beginRollout(stage)
  t.match(stage.hub.rollouts.get(first), { state: 'halted', haltedReason: `Rollout ${second} replaces it` })
  t.match(stage.hub.rollouts.get(second), { state: 'preparing', number: 2 })
  await t.rejects(stage.hub.rollouts.resume(first, { name: 'admin', ip: null }), { code: 'rollout_state' })
})

t.test('takes note at once of nodes that were not heard of', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  stage.clock.advance(60_000)
  const id = await beginRollout(stage)
  t.match(stage.hub.rollouts.get(id), {
    state: 'halted',
    haltedReason: '1 node unreachable (allowed: 0)',
    counts: { unreachable: 1, pending: 1 }
  })
})

t.test('keeps the last 50 rollouts of a project', async t => {
  const stage = await openFleet(t, ['a'])
  for (let n = 0; n < 52; n++) await beginRollout(stage)
  t.same(
    listRollouts(stage.store, { limit: 100 }).map(({ number }) => number),
    Array.from({ length: 50 }, (_, index) => 52 - index)
  )
})

/** Places `proj_a` on further nodes: `n<first>` and so on. */
async function placeMany({ store }: Awaited<ReturnType<typeof openFleet>>, first: number, count: number) {
  const nothing = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
  await store.write(tx => {
    for (let n = first; n < first + count; n++) {
      insertNode(tx, aNode('x', { id: `node_${n}`, name: `n${n}`, publicKey: `key ${n}` }))
      insertPlacement(tx, { projectId: 'proj_a', nodeId: `node_${n}`, deployPath: '/srv/a', ...nothing })
    }
  })
}

t.test('a rollout has at most 1,000 waves: one with more is refused, and the earlier one goes on', async t => {
  const stage = await openFleet(t)
  await placeMany(stage, 0, 1000)
  const first = await beginRollout(stage, { canary: 1, then: '1' })
  t.match(stage.hub.rollouts.get(first), { waves: 1000, state: 'preparing' })
  await placeMany(stage, 1000, 1)
  await t.rejects(beginRollout(stage, { canary: 1, then: '1' }), {
    code: 'too_many_waves',
    message: /makes 1001 waves of these nodes, at most 1000 are allowed/
  })
  t.match(stage.hub.rollouts.list({ limit: 9 }), [{ id: first, state: 'preparing' }])
  await stage.store.write(tx => updateNode(tx, 'node_7', { isDrained: true }))
  t.match(stage.hub.rollouts.get(await beginRollout(stage, { canary: 1, then: '1' })), { waves: 1000 })
})

t.test('begins a rollout of 2000 nodes in one transaction of a few hundred kilobytes', async t => {
  const stage = await openFleet(t)
  await placeMany(stage, 0, 2000)
  const before = stage.store.sequence()
  const id = await beginRollout(stage)
  t.equal(stage.store.sequence(), before + 1)
  t.same(stage.hub.rollouts.list({ limit: 1 })[0]?.counts, { preparing: 2000 })
  t.equal(stage.hub.rollouts.node(id, 'n1999').phase, 'preparing')
})

/** A project on the nodes a and b, with `dep_a` rolled out, and a node c. */
async function openReverted(t: Parameters<typeof openFleet>[0], { hasArtifact = true } = {}) {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub, store } = stage
  await store.write(tx => {
    insertNode(tx, aNode('c'))
    for (const id of ['dep_a', 'dep_b']) addDeployment(tx, aDeployment({ id, projectId: 'proj_a', hasArtifact }))
  })
  const answer = async (id: string, nodeId: string, answer: NodeAnswer, liveDeployId: string | null = null) => {
    const lives = [{ projectId: 'proj_a', liveDeployId, liveTree: null, isDrifted: false }]
    await hub.agents.report(nodeId, { ...answerOf(stage, { id, nodeId, answer }), placements: lives })
  }
  const roll = async (deployId: string): Promise<string> => {
    const id = await beginRollout(stage, { then: '1' }, 'proj_a', { deployId })
    for (const nodeId of ['node_a', 'node_b']) await answer(id, nodeId, 'prepared')
    for (const nodeId of ['node_a', 'node_b']) await answer(id, nodeId, 'good', deployId)
    return id
  }
  const revert = async (id: string, nodes = ['node_a', 'node_b']): Promise<void> => {
    await hub.rollouts.revert(id, null, ana)
    for (const nodeId of nodes) await answer(id, nodeId, 'reverted', 'dep_a')
  }
  const place = () => hub.placements.change('proj_a', { add: [{ node: 'plant-c' }], remove: [] }, ana)
  const newest = () => hub.rollouts.list({ limit: 1 })[0]
  return { ...stage, answer, roll, revert, place, newest }
}

t.test('a node that is placed after a revert gets the release that the revert brought back', async t => {
  const { hub, done, answer, roll, revert, place, newest } = await openReverted(t)
  await roll('dep_a')
  const second = await roll('dep_b')
  await revert(second)
  t.match(newest(), { id: second, state: 'reverted' }, 'nothing begins while all nodes have it')
  await place()
  const id = newest()?.id as string
  t.match(newest(), { deployId: 'dep_a', number: 3, counts: { preparing: 1 }, nodeCount: 1 })
  await answer(id, 'node_c', 'prepared')
  await answer(id, 'node_c', 'good', 'dep_a')
  t.match(newest(), { id, state: 'done' })
  await hub.rollouts.revert(id, null, ana)
  await answer(id, 'node_c', 'reverted')
  t.match(newest(), { id, state: 'reverted' }, 'what a user reverts does not come back')
  t.same(done, ['dep_a', 'dep_b', 'dep_b reverted', 'dep_a'], 'the others still serve it')
})

t.test('a node that is placed before the revert ends gets it then; one that may have the other is asked', async t => {
  const { hub, clock, answer, roll, place, newest } = await openReverted(t)
  await roll('dep_a')
  const second = await roll('dep_b')
  await hub.rollouts.revert(second, null, ana)
  await place()
  await answer(second, 'node_c', 'held')
  await answer(second, 'node_a', 'reverted', 'dep_a')
  t.match(newest(), { id: second, state: 'reverting' })
  clock.advance(60_000)
  await hub.agents.report('node_c', { version: '2.0.0', freeBytes: null, answers: [], placements: [] })
  await hub.tick()
  await until(() => newest()?.id !== second)
  t.match(newest(), { deployId: 'dep_a', counts: { preparing: 1, skipped: 1 } })
  t.match(hub.rollouts.node(newest()?.id as string, 'node_b'), { phase: 'skipped' })
})

t.test('without an earlier release, or without its archive, nothing begins', async t => {
  const first = await openReverted(t)
  const id = await first.roll('dep_a')
  await first.revert(id)
  await first.place()
  t.match(first.newest(), { id, state: 'reverted' })
  const gone = await openReverted(t, { hasArtifact: false })
  await gone.roll('dep_a')
  const second = await gone.roll('dep_b')
  await gone.revert(second)
  await gone.place()
  t.match(gone.newest(), { id: second, state: 'reverted' })
})

t.test('many nodes that are placed after a revert catch up in fewer waves than the policy says', async t => {
  const { hub, store, roll, revert, newest } = await openReverted(t)
  await roll('dep_a')
  await revert(await roll('dep_b'))
  const names = Array.from({ length: 1001 }, (_, n) => `n${n}`)
  await store.write(tx => {
    for (const name of names) insertNode(tx, aNode('x', { id: `node_${name}`, name, publicKey: `key of ${name}` }))
  })
  await hub.placements.change('proj_a', { add: names.map(node => ({ node })), remove: [] }, ana)
  t.match(newest(), { deployId: 'dep_a', nodeCount: 1001, waves: 92 })
})
