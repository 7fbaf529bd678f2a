import t from 'tap'
import type { RolloutEvent } from '../../lib/model/rollout.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { failsToSwap, obedientAgent, obeys } from '../support/obedient-agent.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'

type Tap = Parameters<typeof startServer>[0]

/** A hub with a project on nodes that answer. */
async function openFleet(t: Tap, names: readonly string[]) {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const shop = await stage.createProject('shop')
  const agents = []
  for (const name of names) agents.push(await obedientAgent(t, { url: stage.url, hub }, { name }))
  const add = names.map(node => ({ node }))
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add })
  return { stage, hub, shop, agents, asShop: stage.as(shop.token) }
}

/** Returns the lines of the events of a rollout. */
async function eventsOf(url: string, id: string, token: string): Promise<RolloutEvent[]> {
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${url}/api/rollouts/${id}/events`, { headers })
  const lines = (await response.text()).trim().split('\n')
  return lines.map(line => JSON.parse(line) as RolloutEvent)
}

t.test('the events of a rollout begin with all of it, and end when it is done', async t => {
  const { stage, hub, shop } = await openFleet(t, ['web-1', 'web-2', 'web-3'])
  const id = await beginRollout({ hub }, {}, shop.id)
  const events = await eventsOf(stage.url, id, shop.token)
  t.match(events[0], { type: 'rollout', rollout: { id, nodes: [{ nodeName: 'web-1', wave: 1 }, {}, {}] } })
  t.match(events.at(-1), { type: 'end', rollout: { state: 'done', counts: { good: 3 } } })
  t.ok(events.some(event => event.type === 'state' && event.rollout.wave === 2))
  t.ok(events.some(event => event.type === 'node' && event.node.phase === 'good'))
  t.match(await stage.client.get('/api/rollouts/ro_unknown/events'), { status: 404 })
})

t.test('a failed node halts the rollout; resume and revert continue it', async t => {
  const { hub, shop, agents, asShop } = await openFleet(t, ['web-1', 'web-2', 'web-3'])
  const [, second] = agents
  second?.behave(failsToSwap)
  const id = await beginRollout({ hub }, { then: '1' }, shop.id)
  const state = async (): Promise<string> => (await asShop.get(`/api/rollouts/${id}`)).body.rollout.state
  await until(async () => (await state()) === 'halted')
  const { rollout } = (await asShop.get(`/api/rollouts/${id}`)).body
  t.match(rollout, { haltedReason: /1 failed/, counts: { good: 1, failed: 1 }, projectName: 'shop', wave: 2 })
  const node = await asShop.get(`/api/rollouts/${id}/nodes/web-2`)
  t.match(node.body, { node: { phase: 'failed', error: /answered 502/, failedStep: 'check', tookMs: 5 } })

  second?.behave(obeys)
  t.match(await asShop.post(`/api/rollouts/${id}/resume`), { status: 200, body: { rollout: { haltedReason: null } } })
  await until(async () => (await state()) === 'done')
  t.match(await asShop.post(`/api/rollouts/${id}/halt`), { status: 409, body: { code: 'rollout_state' } })

  t.match(await asShop.post(`/api/rollouts/${id}/revert`, { wave: 2 }), { status: 200 })
  await until(async () => (await state()) === 'reverted')
  t.match((await asShop.get(`/api/rollouts/${id}`)).body.rollout, { counts: { good: 1, reverted: 2 }, revertFrom: 2 })
  t.match(await asShop.post(`/api/rollouts/${id}/revert`, { wave: 0 }), { status: 400, body: { field: 'wave' } })
})

t.test('the next wave waits for an approval, which the deploy token cannot give', async t => {
  const { stage, hub, shop, asShop } = await openFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  await until(async () => (await asShop.get(`/api/rollouts/${id}`)).body.rollout.state === 'approval')
  t.match(await asShop.post(`/api/rollouts/${id}/approve`), { status: 403 })
  t.match(await stage.client.post(`/api/rollouts/${id}/approve`), { status: 200, body: { rollout: { wave: 2 } } })
  await until(async () => (await asShop.get(`/api/rollouts/${id}`)).body.rollout.state === 'done')
  const { items } = (await stage.client.get('/api/audit?limit=20')).body.items
    ? (await stage.client.get('/api/audit?limit=20')).body
    : { items: (await stage.client.get('/api/audit?limit=20')).body }
  t.ok(
    items.some(
      ({ action, target }: { action: string; target: string }) => action === 'rollout.approve' && target === id
    )
  )
})

t.test('a halt says why, and stops nodes that have not begun', async t => {
  const { hub, shop, asShop } = await openFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 3600 }, shop.id)
  await until(async () => (await asShop.get(`/api/rollouts/${id}`)).body.rollout.state === 'pausing')
  const halted = await asShop.post(`/api/rollouts/${id}/halt`, { reason: 'errors in the log' })
  t.match(halted.body, {
    rollout: { state: 'halted', haltedReason: /errors in the log/, counts: { good: 1, prepared: 1 } }
  })
  t.match(await asShop.post(`/api/rollouts/${id}/halt`, { reason: 'a\nb' }), { status: 400, body: { field: 'reason' } })
})

t.test('rollouts are listed, the newest first, and filtered', async t => {
  const { stage, hub, shop, asShop } = await openFleet(t, ['web-1'])
  const forum = await stage.createProject('forum')
  await stage.client.patch(`/api/projects/${forum.id}/placements`, { add: [{ node: 'web-1' }] })
  const ids: string[] = []
  for (const { id: projectId } of [shop, shop, forum]) {
    const id = await beginRollout({ hub }, {}, projectId)
    await until(async () => (await stage.client.get(`/api/rollouts/${id}`)).body.rollout.state === 'done')
    ids.unshift(id)
  }
  const list = async (query: string, client = stage.client): Promise<string[]> =>
    (await client.get(`/api/rollouts${query}`)).body.rollouts.map(({ id }: { id: string }) => id)
  t.same(await list(''), ids)
  t.same(await list(`?projectId=${shop.id}`), ids.slice(1))
  t.same(await list('?state=done&limit=1'), ids.slice(0, 1))
  t.same(await list('?state=halted'), [])
  t.same(await list(`?before=${ids[1]}`), ids.slice(2))
  t.same(await list('?deployId=dep_unknown'), [])
  t.same(await list('', asShop), ids.slice(1), 'a deploy token sees its own project')
  t.match(await asShop.get(`/api/rollouts?projectId=${forum.id}`), { status: 403, body: { code: 'other_project' } })
  t.match(await asShop.get(`/api/rollouts/${ids[0]}`), { status: 403, body: { code: 'other_project' } })
  t.match(await asShop.get(`/api/rollouts?before=${ids[0]}`), { status: 403, body: { code: 'other_project' } })
  t.match(await stage.client.get('/api/rollouts?state=over'), { status: 400, body: { field: 'state' } })
})
