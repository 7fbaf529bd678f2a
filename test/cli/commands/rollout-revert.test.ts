import t from 'tap'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { obeys } from '../../support/obedient-agent.js'

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
