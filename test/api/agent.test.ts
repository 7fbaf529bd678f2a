import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { enrolledAgent, FakeAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { ana } from '../support/fleet-stage.js'
import { startServer } from '../support/server.js'

async function openHub(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  return { stage, hub: await stage.server.services.fleet.hub() }
}

t.test('enrolls an agent, which then signs its requests', async t => {
  const { stage, hub } = await openHub(t)
  const { token } = await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  const agent = new FakeAgent(stage.url)
  t.match(await agent.enroll(token, 'plant-a'), { status: 200, json: { success: true, name: 'plant-a' } })
  const other = new FakeAgent(stage.url)
  t.match((await other.enroll(token)).json, { code: 'enrollment_invalid' }, 'another machine cannot use it again')
  agent.nodeId = hub.nodes.get('plant-a').id
  t.match((await agent.report()).json, { code: 'session_unknown' })
  await agent.begin()
  t.match((await agent.report()).json, { success: true })
  t.equal((await agent.report()).status, 200)
  t.match(hub.nodes.get('plant-a'), { version: '2.0.0' })
})

t.test('refuses what is not signed, or was sent before', async t => {
  const { stage, hub } = await openHub(t)
  const agent = await enrolledAgent({ url: stage.url, hub })
  const report = { version: '2.0.0', freeBytes: null, answers: [], placements: [] }
  const send = (forged: Parameters<FakeAgent['request']>[3]) =>
    agent.request('POST', '/api/agent/reports', report, forged)
  t.match(await send({ counter: 500 }), { status: 200 })
  t.match(await send({ counter: 500 }), { status: 401, json: { code: 'request_repeated' } })
  t.match(await send({ bodySha256: 'a'.repeat(64) }), { status: 400, json: { code: 'wrong_digest' } })
  t.match(await send({ headers: { 'svc-content-sha256': 'a'.repeat(64) } }), { json: { code: 'wrong_signature' } })
  t.match(await send({ authorization: 'Bearer x' }), { status: 401, json: { code: 'unauthorized' } })
  t.match(await agent.request('POST', '/api/agent/reports', { ...report, version: 1 }), {
    status: 400,
    json: { code: 'invalid_field' }
  })
  const large = { ...report, version: 'x'.repeat(20_000) }
  t.match(await agent.request('POST', '/api/agent/reports', large), { status: 413, json: { code: 'too_large' } })
  await hub.nodes.forget('plant-a', ana)
  t.match((await agent.report()).json, { code: 'node_unknown' })
})

t.test('streams the orders of a node, at once and when they change', async t => {
  const { stage, hub } = await openHub(t)
  const project = await stage.createProject('shop')
  const agent = await enrolledAgent({ url: stage.url, hub })
  await hub.placements.change(project.id, { add: [{ node: 'plant-a' }], remove: [] }, ana)
  const first = await agent.follow()
  t.match(await first.next(), { type: 'welcome', heartbeatMs: 15_000, hubs: [] })
  t.ok(hub.nodes.get('plant-a').isConnected)
  const id = await beginRollout({ hub }, { pause: 'approve' }, project.id)
  t.match(await first.next(), { type: 'order', rolloutId: id, action: 'prepare', attempt: 1 })
  await agent.begin()
  const second = await agent.follow()
  t.match(await second.next(), { type: 'welcome' })
  t.match(await second.next(), { type: 'order', action: 'prepare', attempt: 1 }, 'a lost order is repeated')
  t.equal(await first.next(), null, 'the earlier stream has ended')
  const live = { projectId: 'proj_gone', liveDeployId: null, liveTree: null, isDrifted: false }
  await agent.report({ placements: [live] })
  t.match(await second.next(), { type: 'unplaced', projectId: 'proj_gone' })
  await hub.rollouts.halt(id, null, ana)
  await hub.placements.change(project.id, { add: [], remove: ['plant-a'] }, ana)
  t.match(await second.next(), { type: 'unplaced', projectId: project.id })
  await hub.nodes.forget('plant-a', ana)
  t.equal(await second.next(), null)
})

t.test('continues after a restart of the hub', async t => {
  const { stage, hub } = await openHub(t)
  const project = await stage.createProject('shop')
  const agent = await enrolledAgent({ url: stage.url, hub })
  await hub.placements.change(project.id, { add: [{ node: 'plant-a' }], remove: [] }, ana)
  const id = await beginRollout({ hub }, {}, project.id)
  const before = await agent.follow()
  await before.next()
  await stage.restart()
  t.ok(stage.server.services.fleet.running(), 'a server with nodes loads its fleet')
  agent.url = stage.url
  t.match((await agent.report()).json, { code: 'session_unknown' })
  await agent.begin()
  t.match((await agent.report()).json, { success: true })
  const after = await agent.follow()
  t.match(await after.next(), { type: 'welcome' })
  t.match(await after.next(), { type: 'order', action: 'prepare' })
  t.match(stage.server.services.fleet.running()?.rollouts.get(id), { state: 'preparing' })
  // Its first write since the start is when nodes were heard of: the directory must still exist.
  await stage.server.stop({ wait: true })
})

t.test('gives a node the release and its archive, whole and in parts', async t => {
  const { stage, hub } = await openHub(t)
  const project = await stage.createProject('shop')
  const agent = await enrolledAgent({ url: stage.url, hub })
  const bytes = Buffer.from('the bytes of an archive')
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  writeFileSync(join(stage.home.deployments, 'dep_a.zip'), bytes)
  const blob = (headers: Record<string, string> = {}) =>
    agent.request('GET', `/api/agent/blobs/${sha256}`, undefined, { headers })
  await hub.placements.change(project.id, { add: [{ node: 'plant-a' }], remove: [] }, ana)
  t.match(await blob(), { status: 404 })
  await beginRollout({ hub }, {}, project.id, { archiveSha256: sha256, archiveBytes: bytes.length })
  t.match(await blob(), { status: 200, body: bytes })
  t.match(await blob({ range: 'bytes=4-8' }), { status: 206, body: bytes.subarray(4, 9) })
  const ranges = (list: unknown[]) => agent.request('POST', `/api/agent/blobs/${sha256}/ranges`, { ranges: list })
  t.match(await ranges([0, 3, 4, 5, 17, 5]), {
    status: 200,
    body: Buffer.from('thebyteschive'.replace('chive', bytes.subarray(17, 22).toString()))
  })
  for (const wrong of [[0], [0, 0], [4, 5, 0, 3], [0, 3, 2, 3], [0, 3, 20, 9], ['a', 1]]) {
    t.match(await ranges(wrong), { status: 400, json: { field: /^ranges/ } }, JSON.stringify(wrong))
  }
  const release = await agent.request('GET', '/api/agent/releases/dep_a')
  t.match(release, { status: 200, json: { projectId: project.id, deployPath: project.deployPath } })
  t.match(release.headers, { 'svc-signature': /^[A-Za-z0-9+/]{86}==$/ })
})
