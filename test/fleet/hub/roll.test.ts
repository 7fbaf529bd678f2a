import t from 'tap'
import { defaultRolloutPolicy } from '../../../lib/model/rollout.js'
import { answerOf } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'

const release = {
  projectId: 'proj_a',
  deployId: 'dep_a',
  treeSha256: 'tree',
  archiveSha256: 'archive',
  archiveBytes: 100,
  policy: defaultRolloutPolicy,
  offer: { offered: { origin: 'upload' as const, postDeploy: 'echo on' }, clientEnv: { A: 'b' } },
  rollbackOf: null,
  actor: ana
}

t.test('follows a rollout to its end, and again after it was given up', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub } = stage
  const stop = new AbortController()
  const lines: string[] = []
  const watch = { say: (line: string) => void lines.push(line), signal: stop.signal }
  const first = hub.rolls.begin(release, watch)
  while (lines.length === 0) await new Promise(resolve => setImmediate(resolve))
  stop.abort(new Error('enough'))
  await t.rejects(first, /enough/)
  const id = hub.rollouts.list({ limit: 1 })[0]?.id as string
  t.equal(hub.rollouts.get(id).state, 'preparing', 'the rollout continues')
  const again = hub.rolls.follow('dep_a', { ...watch, signal: new AbortController().signal })
  for (const answer of ['prepared', 'good'] as const)
    await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer }))
  t.same(await again, { outcome: 'done', sentence: 'rolled out to 1 node' })
  t.same(stage.done, ['dep_a'])
  await hub.rollouts.revert(id, null, ana)
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'reverted' }))
  t.equal(hub.rollouts.get(id).state, 'reverted')
  t.same(stage.done, ['dep_a', 'dep_a reverted'], 'its deployment is no success any more')
  const rollback = { ...release, deployId: 'dep_b', rollbackOf: 'dep_a', offer: { ...release.offer, clientEnv: {} } }
  const second = hub.rolls.begin(rollback, { ...watch, signal: new AbortController().signal })
  while (hub.rollouts.list({ limit: 1 })[0]?.deployId !== 'dep_b') await new Promise(resolve => setImmediate(resolve))
  const { json } = await hub.agents.document({ nodeId: 'node_a', session: 's', counter: 1, protocol: 2 }, 'dep_b')
  t.match(JSON.parse(json), { clientEnv: { A: 'b' }, offered: { origin: 'source deployment', postDeploy: 'echo on' } })
  await hub.rolls.halt('dep_b', 'Cancelled by ana')
  t.match(await second, { outcome: 'halted', sentence: /was halted: Cancelled by ana/ })
  await hub.rolls.halt('dep_x', 'nothing happens')
})

t.test('refuses a rollout without a node that takes part', async t => {
  const { hub } = await openFleet(t, ['a'])
  await hub.nodes.drain('node_a', true, ana)
  const watch = { say() {}, signal: new AbortController().signal }
  await t.rejects(hub.rolls.begin(release, watch), { code: 'no_nodes' })
})
