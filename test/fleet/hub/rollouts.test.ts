import t from 'tap'
import { listAudit } from '../../../lib/store/tables/audit.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'

t.test('goes through the waves, waiting for approvals', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub } = stage
  const id = await beginRollout(stage, { pause: 'approve' })
  const answer = (nodeId: string, answer: 'prepared' | 'good') =>
    hub.agents.report(nodeId, answerOf(stage, { id, nodeId, answer }))
  await t.rejects(hub.rollouts.approve(id, ana), { code: 'rollout_state' })
  await answer('node_a', 'prepared')
  await answer('node_b', 'prepared')
  t.match(hub.rollouts.get(id), { state: 'swapping', wave: 1, counts: { swapping: 1, prepared: 1 } })
  await answer('node_a', 'good')
  t.match(hub.rollouts.get(id), { state: 'approval' })
  t.match(await hub.rollouts.approve(id, ana), { state: 'swapping', wave: 2 })
  await answer('node_b', 'good')
  t.match(hub.rollouts.get(id), { state: 'done', counts: { good: 2 } })
  t.ok(hub.rollouts.get(id).endedAt)
  for (const refused of [hub.rollouts.halt(id, null, ana), hub.rollouts.resume(id, ana)])
    await t.rejects(refused, { code: 'rollout_state' })
  t.match(await hub.rollouts.revert(id, 2, ana), { state: 'reverting', revertFrom: 2 })
  t.match(hub.rollouts.node(id, 'plant-b'), { phase: 'reverting' })
  t.match(hub.rollouts.node(id, 'plant-a'), { phase: 'good' })
})

t.test('halts and resumes, and records who did', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store } = stage
  const id = await beginRollout(stage)
  t.match(await hub.rollouts.halt(id, 'the wrong tree', ana), {
    state: 'halted',
    haltedReason: 'token:ana stopped it: the wrong tree'
  })
  t.match(await hub.rollouts.resume(id, ana), { state: 'preparing', haltedReason: null })
  t.same(
    listAudit(store, { limit: 3 }).map(({ action, actor, target, detail }) => [action, actor, target, detail]),
    [
      ['rollout.resume', 'token:ana', id, null],
      ['rollout.halt', 'token:ana', id, 'the wrong tree'],
      ['rollout.start', 'system', id, 'deployment dep_a']
    ]
  )
  t.equal(hub.rollouts.projectOf(id), 'proj_a')
  t.equal(hub.rollouts.projectOf('ro_x'), undefined)
  for (const unknown of [() => hub.rollouts.get('ro_x'), () => hub.rollouts.node(id, 'plant-x')])
    t.throws(unknown, { code: 'not_found' })
})
