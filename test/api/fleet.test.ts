import t from 'tap'
import { enrolledAgent, FakeAgent } from '../support/fake-agent.js'
import { startServer } from '../support/server.js'
import { beginRollout } from '../support/fleet-rollout.js'
import type { ListedNode } from '../../lib/model/node.js'
import type { RolloutEvent } from '../../lib/model/rollout.js'
import { failsToSwap, obedientAgent, obeys } from '../support/obedient-agent.js'
import { until } from '../support/until.js'

async function openFleet(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const agents = [
    await enrolledAgent({ url: stage.url, hub }, 'web-1'),
    await enrolledAgent({ url: stage.url, hub }, 'web-2')
  ]
  return { stage, agents }
}

t.test('nodes are listed by name, filtered by project and label', async t => {
  const { stage } = await openFleet(t)
  const { client } = stage
  const names = async (query: string): Promise<string[]> =>
    (await client.get(`/api/nodes${query}`)).body.nodes.map(({ name }: { name: string }) => name)
  const shop = await stage.createProject('shop')
  t.same(await names(''), ['web-1', 'web-2'])
  t.same(await names(`?projectId=${shop.id}`), [])
  await client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: 'web-2' }] })
  t.same(await names(`?projectId=${shop.id}`), ['web-2'])
  await client.patch('/api/nodes/web-1', { labels: { zone: 'eu' } })
  t.same(await names('?label=zone=eu'), ['web-1'])
  t.match(await client.get('/api/nodes?label=zone'), { status: 400, body: { field: 'label' } })
})

t.test('a node is changed by name or id, and drained', async t => {
  const { stage } = await openFleet(t)
  const { client } = stage
  const { node } = (await client.get('/api/nodes/web-1')).body
  t.match(node, { name: 'web-1', isConnected: false, isDrained: false, placements: [] })
  t.match((await client.get(`/api/nodes/${node.id}`)).body, { node: { id: node.id } })
  t.match(await client.get('/api/nodes/web-9'), { status: 404, body: { code: 'not_found' } })

  t.match((await client.patch(`/api/nodes/${node.id}`, { name: 'db-1' })).body, { node: { name: 'db-1', labels: {} } })
  t.match(await client.patch('/api/nodes/db-1', { name: 'WEB-2' }), { status: 409, body: { code: 'name_taken' } })
  t.match(await client.patch('/api/nodes/db-1', { name: 'two words' }), { status: 400, body: { field: 'name' } })
  t.match(await client.patch('/api/nodes/db-1', { labels: { 'a b': '' } }), {
    status: 400,
    body: { field: 'labels.a b' }
  })

  t.match((await client.put('/api/nodes/db-1/drain', { drained: true })).body, { node: { isDrained: true } })
  t.match((await client.put('/api/nodes/db-1/drain', { drained: false })).body, { node: { isDrained: false } })
  t.match(await client.put('/api/nodes/db-1/drain', {}), { status: 400, body: { field: 'drained' } })
})

t.test('a node that is removed can no longer sign requests', async t => {
  const { stage, agents } = await openFleet(t)
  t.equal((await agents[0]?.report())?.status, 200)
  t.match((await stage.client.delete('/api/nodes/web-1')).body, { success: true, message: /"web-1"/ })
  t.equal((await agents[0]?.report())?.status, 401)
  t.match(await stage.client.delete('/api/nodes/web-1'), { status: 404 })
})

t.test('a token that is limited to a project sees only its nodes, with its placement only', async t => {
  const { stage } = await openFleet(t)
  const { client } = stage
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  for (const { id } of [shop, forum]) await client.patch(`/api/projects/${id}/placements`, { add: [{ node: 'web-1' }] })
  await client.patch(`/api/projects/${forum.id}/placements`, { add: [{ node: 'web-2' }] })
  const { token } = (await client.post('/api/tokens', { name: 'ci', role: 'operator', projectIds: [shop.id] })).body
  const limited = stage.as(token)
  const { nodes } = (await limited.get('/api/nodes')).body
  t.match(nodes, [{ name: 'web-1', placements: [{ projectId: shop.id, projectName: 'shop' }] }])
  t.equal(nodes[0].placements.length, 1)
  t.match(await limited.get('/api/nodes/web-2'), { status: 404 })
  t.match(await limited.get(`/api/nodes?projectId=${forum.id}`), { status: 404 })
  t.match(await limited.put('/api/nodes/web-1/drain', { drained: true }), { body: { code: 'scope_too_narrow' } })
})

t.test('a token makes one machine a node, and is listed until then without its secret', async t => {
  const { client, url } = await startServer(t)
  const created = await client.post('/api/enrollments', { name: 'web-1', labels: { zone: 'eu' }, seconds: 600 })
  t.match(created, { status: 200, body: { enrollment: { name: 'web-1', labels: { zone: 'eu' }, createdBy: 'admin' } } })
  const { token, command, enrollment } = created.body
  t.equal(command, `SVC_ENROLL_TOKEN=${token} svc agent --hub ${url}`)
  const seconds = (Date.parse(enrollment.expiresAt) - Date.parse(enrollment.createdAt)) / 1000
  t.equal(seconds, 600)

  const listed = await client.get('/api/enrollments')
  t.match(listed.body.enrollments, [{ id: enrollment.id }])
  t.notMatch(listed.text, token.split('_')[1])

  t.match(await new FakeAgent(url).enroll(token), { status: 200, json: { name: 'web-1' } })
  t.same((await client.get('/api/enrollments')).body.enrollments, [])
  t.match((await client.get('/api/nodes/web-1')).body, { node: { labels: { zone: 'eu' } } })
  t.match(await client.post('/api/enrollments', { name: 'web-1' }), { status: 409, body: { code: 'name_taken' } })
})

t.test('a token without fields is valid for an hour, and can be revoked', async t => {
  const { client, url } = await startServer(t)
  const { token, enrollment } = (await client.post('/api/enrollments')).body
  t.match(enrollment, { name: null, labels: {} })
  t.equal(Date.parse(enrollment.expiresAt) - Date.parse(enrollment.createdAt), 3_600_000)
  t.match((await client.delete(`/api/enrollments/${enrollment.id}`)).body, { success: true })
  t.match(await client.delete(`/api/enrollments/${enrollment.id}`), { status: 404 })
  t.match(await new FakeAgent(url).enroll(token), { status: 403, json: { code: 'enrollment_invalid' } })
})

t.test('wrong fields are refused by name', async t => {
  const { client } = await startServer(t)
  const wrong: Array<[object, string]> = [
    [{ name: 'two words' }, 'name'],
    [{ labels: { zone: 1 } }, 'labels.zone'],
    [{ seconds: 59 }, 'seconds'],
    [{ seconds: 7 * 86_400 + 1 }, 'seconds']
  ]
  for (const [body, field] of wrong)
    t.match(await client.post('/api/enrollments', body), { status: 400, body: { field } }, JSON.stringify(body))
})

t.test('the command names the public address and the prefix of the server', async t => {
  const behind = await startServer(t, {
    environment: { SVC_PUBLIC_URL: 'https://deploy.example.org/svc' },
    base: '/svc'
  })
  const { command } = (await behind.client.post('/api/enrollments')).body
  t.match(command, /^SVC_ENROLL_TOKEN=svcnode_\S+ svc agent --hub https:\/\/deploy\.example\.org\/svc$/)
})

t.test('a project is placed on nodes with its own directory or another, and removed', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  for (const name of ['web-1', 'web-2']) await enrolledAgent({ url: stage.url, hub }, name)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/placements`
  t.same((await client.get(path)).body.placements, [])

  const { node } = (await client.get('/api/nodes/web-2')).body
  const added = await client.patch(path, { add: [{ node: 'web-1' }, { node: node.id, deployPath: '/srv/other' }] })
  t.match(added, {
    status: 200,
    body: {
      placements: [
        { nodeName: 'web-1', deployPath: shop.deployPath, liveDeployId: null, isDrifted: false },
        { nodeName: 'web-2', deployPath: '/srv/other' }
      ]
    }
  })
  const deployPath = `${shop.deployPath}-next`
  const moved = await client.put(`/api/projects/${shop.id}`, { deployPath })
  t.match(moved.body.warnings, [
    `"web-1" keeps "${shop.deployPath}", "web-2" keeps "/srv/other". To move it there: svc fleet`
  ])
  t.notMatch((await client.put(`/api/projects/${shop.id}`, { name: 'shop 2' })).body, { warnings: [/./] })
  t.match((await client.patch(path, { remove: ['web-1'] })).body.placements, [{ nodeName: 'web-2' }])
  t.equal((await client.get(path)).body.placements.length, 1)
})

t.test('unknown nodes and projects, and empty changes are refused', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/placements`
  t.match(await client.patch(path, { add: [{ node: 'web-9' }] }), { status: 404, body: { code: 'not_found' } })
  t.match(await client.patch(path, {}), { status: 400, body: { field: 'add' } })
  t.match(await client.patch(path, { add: [{}] }), { status: 400, body: { field: 'add[0].node' } })
  t.match(await client.get('/api/projects/proj_unknown/placements'), { status: 404 })
  t.match(await client.patch('/api/projects/proj_unknown/placements', { remove: ['a'] }), { status: 404 })
})

t.test('the check of an upload says to how many nodes and in how many waves it would go', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  const shop = await stage.createProject('shop')
  const check = async () => (await stage.as(shop.token).get(`/api/deploy/check?projectId=${shop.id}`)).body.rollout
  t.equal(await check(), null)
  for (const name of ['web-1', 'web-2', 'web-3', 'web-4']) {
    await enrolledAgent({ url: stage.url, hub }, name)
    await client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: name }] })
  }
  await client.put('/api/nodes/web-4/drain', { drained: true })
  await client.put(`/api/projects/${shop.id}`, { policy: { rollout: { canary: 1, then: '2' } } })
  t.match(await check(), { nodes: 3, waves: 2, policy: { canary: 1, then: '2', onFailure: 'halt' } })
})

t.test('a node cannot be removed while a rollout is in progress', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  await enrolledAgent({ url: stage.url, hub }, 'web-1')
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/placements`
  await client.patch(path, { add: [{ node: 'web-1' }] })
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await client.patch(path, { remove: ['web-1'] }), { status: 409, body: { code: 'rollout_in_progress' } })
  await client.post(`/api/rollouts/${id}/halt`)
  t.match(await client.patch(path, { remove: ['web-1'] }), { status: 200, body: { placements: [] } })
})

type Tap = Parameters<typeof startServer>[0]

/** A hub with a project on nodes that answer. */
async function openRollouts(t: Tap, names: readonly string[]) {
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
  const { stage, hub, shop } = await openRollouts(t, ['web-1', 'web-2', 'web-3'])
  const id = await beginRollout({ hub }, {}, shop.id)
  const events = await eventsOf(stage.url, id, shop.token)
  t.match(events[0], { type: 'rollout', rollout: { id, nodes: [{ nodeName: 'web-1', wave: 1 }, {}, {}] } })
  t.match(events.at(-1), { type: 'end', rollout: { state: 'done', counts: { good: 3 } } })
  t.ok(events.some(event => event.type === 'state' && event.rollout.wave === 2))
  t.ok(events.some(event => event.type === 'node' && event.node.phase === 'good'))
  t.match(await stage.client.get('/api/rollouts/ro_unknown/events'), { status: 404 })
})

t.test('a failed node halts the rollout; resume and revert continue it', async t => {
  const { stage, hub, shop, agents, asShop } = await openRollouts(t, ['web-1', 'web-2', 'web-3'])
  const [, second] = agents
  second?.behave(failsToSwap)
  const id = await beginRollout({ hub }, { then: '1' }, shop.id)
  const state = async (): Promise<string> => (await asShop.get(`/api/rollouts/${id}`)).body.rollout.state
  await until(async () => (await state()) === 'halted')
  const { rollout } = (await asShop.get(`/api/rollouts/${id}`)).body
  t.match(rollout, { haltedReason: /1 failed/, counts: { good: 1, failed: 1 }, projectName: 'shop', wave: 2 })
  const node = await asShop.get(`/api/rollouts/${id}/nodes/web-2`)
  t.match(node.body, { node: { phase: 'failed', error: /answered 502/, failedStep: 'check', tookMs: 5 } })
  const { nodes } = (await stage.client.get('/api/nodes')).body
  t.same(
    (nodes as ListedNode[]).map(({ name, placements: [one] }) => [name, one?.trouble]),
    [
      ['web-1', undefined],
      ['web-2', { rolloutId: id, phase: 'failed' }],
      ['web-3', undefined]
    ]
  )

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
  const { stage, hub, shop, asShop } = await openRollouts(t, ['web-1', 'web-2'])
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
  const { hub, shop, asShop } = await openRollouts(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 3600 }, shop.id)
  await until(async () => (await asShop.get(`/api/rollouts/${id}`)).body.rollout.state === 'pausing')
  const halted = await asShop.post(`/api/rollouts/${id}/halt`, { reason: 'errors in the log' })
  t.match(halted.body, {
    rollout: { state: 'halted', haltedReason: /errors in the log/, counts: { good: 1, prepared: 1 } }
  })
  t.match(await asShop.post(`/api/rollouts/${id}/halt`, { reason: 'a\nb' }), { status: 400, body: { field: 'reason' } })
})

t.test('rollouts are listed, the newest first, and filtered', async t => {
  const { stage, hub, shop, asShop } = await openRollouts(t, ['web-1'])
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
