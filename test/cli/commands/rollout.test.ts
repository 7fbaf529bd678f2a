import t from 'tap'
import { shownFlag } from '../../../lib/cli/hints.js'
import { waitOption } from '../../../lib/cli/commands/rollout.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { failsToSwap, obeys } from '../../support/obedient-agent.js'
import { until } from '../../support/until.js'

t.test('a rollout that is halted again is a failure, in JSON as well', async t => {
  t.equal(shownFlag('wait', waitOption), '--no-wait')
  const { hub, shop, run } = await startFleet(t, ['web-1'], { 'web-1': failsToSwap })
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await run(`rollout status ${id} --follow`), { code: 1 })
  const again = await run(`rollout resume ${id} --json`)
  t.match(again, { code: 1, stderr: new RegExp(`next: svc rollout revert ${id}`) })
  t.match(JSON.parse(again.stdout), { id, state: 'halted', nodes: [{ phase: 'failed', failedStep: 'check' }] })
  t.match(await run(`rollout revert ${id}`), { code: 0, stdout: /reverted/ })
})

t.test('shows the waves of the newest rollout, and what to do about a halted one', async t => {
  const { stage, hub, shop, agents, run } = await startFleet(t, ['web-1', 'web-2', 'web-3'], { 'web-2': failsToSwap })
  t.match(await run('rollout status --project shop'), { code: 1, stderr: /no rollout/ })
  const id = await beginRollout({ hub }, { then: '100%' }, shop.id)
  await until(async () => {
    const { nodes } = (await stage.client.get(`/api/rollouts/${id}`)).body.rollout
    return nodes.filter(({ phase }: { phase: string }) => phase === 'good').length === 2
  })
  const watched = await run('rollout status --project shop --follow')
  t.match(watched.code, 1)
  t.match(watched.stderr, new RegExp(`${id}: halted: 1 failed`))
  t.match(watched.stderr, /✗ web-2: check: Check http:\S+ answered 502/)
  t.match(watched.stdout, /wave 1\/2 {2}web-1 {2}✓ {2}1 good\nwave 2\/2 {2}web-2, web-3 {2}✗✓ {2}1 failed, 1 good/)
  t.match(
    watched.stderr,
    `next: svc rollout revert ${id} --project shop   or   svc rollout resume ${id} --project shop`
  )

  t.match(await run('rollout list'), { code: 0, stdout: new RegExp(`\\n${id} +shop +halted: 1 failed`) })
  agents.get('web-2')?.behave(obeys)
  const resumed = await run('rollout resume --project shop')
  t.match(resumed, { code: 0, stdout: /done\n/ })
  t.match(await run(`rollout status ${id}`), { code: 0, stdout: /3 nodes, 2 waves\ndone/ })
  t.match(await run('rollout list shop --state halted'), { code: 0, stdout: '', stderr: /no rollout/ })
  const [listed] = JSON.parse((await run('rollout list shop --json')).stdout)
  t.match(listed, { id, state: 'done', counts: { good: 3 } })
})

t.test('Ctrl-C stops watching: the rollout continues, and the note says how to halt it', async t => {
  const { stage, hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  const detached = await run(`rollout status ${id} --follow`, { interruptAt: /waits for an approval/ })
  t.match(detached, { code: 130, stderr: new RegExp(`continues. Halt it with: svc rollout halt ${id}\n`) })
  t.equal((await stage.client.get(`/api/rollouts/${id}`)).body.rollout.state, 'approval')

  t.match(await run(`rollout status ${id}`), { code: 0, stderr: new RegExp(`next: svc rollout approve ${id}`) })
  t.match(await run('rollout approve --project shop', { env: { SVC_TOKEN: '', SVC_DEPLOY_TOKEN: shop.token } }), {
    code: 1
  })
  t.match(await run('rollout approve --project shop'), { code: 0, stdout: /Began wave 2 of 2/ })
  t.match(await run(`rollout status ${id} --follow`), { code: 0, stdout: /done/ })
})

t.test('a rollout is halted with a reason', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  await run(`rollout status ${id} --follow`, { interruptAt: /waits for an approval/ })
  const halted = await run(`rollout halt ${id} --reason errors --json`)
  t.match(JSON.parse(halted.stdout), { id, state: 'halted', haltedReason: /errors/ })
  t.match(await run(`rollout halt ${id}`), { code: 1, stderr: /halted/ })
  t.match(await run('rollout resume --project shop --no-wait'), { code: 0, stdout: `Continued ${id}\n` })
})

t.test('waits until the nodes are back, from a wave on or all of them', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await run(`rollout status ${id} --follow`), { code: 0 })
  const second = await run(`rollout revert --project ${shop.id} --wave 2`, {
    env: { SVC_TOKEN: '', SVC_DEPLOY_TOKEN: shop.token }
  })
  t.match(second, { code: 0, stdout: /wave 1\/2 {2}web-1 {2}✓ {2}1 good\nwave 2\/2 {2}web-2 {2}↶ {2}1 reverted/ })
  t.match(JSON.parse((await run(`rollout revert ${id} --json`)).stdout), { state: 'reverted', counts: { reverted: 2 } })
})

t.test('a node that cannot go back is a failure', async t => {
  const stays = {
    'web-1': (order: Parameters<typeof obeys>[0]) => (order.action === 'revert' ? ['stuck', 'No copy'] : obeys(order))
  }
  const { hub, shop, run } = await startFleet(t, ['web-1'], stays as never)
  const id = await beginRollout({ hub }, {}, shop.id)
  await run(`rollout status ${id} --follow`)
  t.match(await run(`rollout revert ${id}`), { code: 1, stdout: /! {2}1 stuck\n\n! web-1: check: No copy/ })
})
