import t from 'tap'
import { insertNode, insertPlacement, updateNode } from '../../../lib/store/tables/fleet.js'
import { listRollouts } from '../../../lib/store/tables/rollouts.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { aNode, openFleet } from '../../support/fleet-stage.js'

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
