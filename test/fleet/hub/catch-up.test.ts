import t from 'tap'
import type { NodeAnswer } from '../../../lib/model/rollout.js'
import { addDeployment } from '../../../lib/store/tables/deployments.js'
import { insertNode } from '../../../lib/store/tables/fleet.js'
import { aDeployment } from '../../store/stage.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { aNode, ana, openFleet } from '../../support/fleet-stage.js'
import { until } from '../../support/until.js'

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
