import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { eventsOf } from '../support/client.js'
import { ana } from '../support/fleet-stage.js'
import { startNode, type FakeNode } from '../support/fake-node.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import type { Project } from '../../lib/model/project.js'
import { until } from '../support/until.js'
import type { RolloutPolicy } from '../../lib/model/rollout.js'

async function openPlaced(t: Parameters<typeof startServer>[0], names: string[], policy: Partial<RolloutPolicy> = {}) {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const project = await stage.createProject('shop')
  const nodes: FakeNode[] = []
  for (const name of names) nodes.push(await startNode({ url: stage.url, hub }, name))
  t.teardown(() => nodes.forEach(node => node.close()))
  await hub.placements.change(project.id, { add: names.map(node => ({ node })), remove: [] }, ana)
  await stage.client.put(`/api/projects/${project.id}`, { policy: { rollout: policy } })
  return { stage, hub, project, nodes }
}

const push = async (stage: Stage, project: Project, fields: Array<[string, string]> = []) =>
  stage
    .as(project.token)
    .upload([
      ['projectId', project.id],
      ...fields,
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'a.txt': 'a', 'd/b.txt': 'b' }) }]
    ])

const textOf = async (stage: Stage, deployId: string): Promise<string> =>
  (await stage.server.services.deployer.readOutput(deployId)).text

t.test('rolls a push out to the nodes, and shows what happens', async t => {
  const { stage, hub, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2', 'plant-a3'], { then: '2' })
  const pushed = await push(stage, project)
  const { deployId, status } = eventsOf(pushed).at(-1)
  t.equal(status, 'success')
  const [rollout] = hub.rollouts.list({ deployId, limit: 1 })
  t.match(rollout, { state: 'done', wave: 2, counts: { good: 3 } })
  const text = await textOf(stage, deployId)
  t.match(text, `Rollout ${rollout?.id} of tree ${rollout?.treeSha256.slice(0, 8)}…: 3 nodes, 2 waves`)
  t.match(text, /prepare {3}3\/3 ready \(\d+ B each, [\d.]+s\)/)
  t.match(text, /wave 1\/2 {2}plant-a1 {12}✓ good 0\.01s/)
  t.match(text, /wave 2\/2 {2}plant-a2, plant-a3 {2}✓✓/)
  const { body } = await stage.client.get(`/api/logs/${deployId}`)
  t.same(
    body.steps.map(({ name, status }: { name: string; status: string }) => [name, status]),
    ['store', 'rollout', 'cleanup'].map(name => [name, 'success'])
  )
  t.match(body, { status: 'success', treeSha256: rollout?.treeSha256, fileCount: 2 })
  const local = await stage.createProject('local')
  const { deployId: localId } = eventsOf(await push(stage, local)).at(-1)
  const { body: record } = await stage.client.get(`/api/logs/${localId}`)
  t.equal(record.treeSha256, rollout?.treeSha256, 'the tree that an extraction has')
  t.notOk(existsSync(project.deployPath), 'the server puts nothing in place itself')
  t.match(hub.placements.ofProject(project.id)[0], { liveDeployId: deployId, liveTree: rollout?.treeSha256 })
  t.same(
    nodes.map(({ orders }) => orders.map(({ action }) => action).filter(action => action !== 'none')),
    [1, 2, 3].map(() => ['prepare', 'swap'])
  )
})

t.test('fails when a node fails, and corrects the record when the rollout is resumed to its end', async t => {
  const { stage, hub, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2'])
  const [, second] = nodes as [FakeNode, FakeNode]
  second.answering = ({ action }) =>
    action === 'swap' ? { answer: 'failed', error: 'check /up answered 502', output: 'the end' } : undefined
  const { deployId, status } = eventsOf(await push(stage, project)).at(-1)
  t.equal(status, 'failed')
  const id = hub.rollouts.list({ deployId, limit: 1 })[0]?.id as string
  const text = await textOf(stage, deployId)
  t.match(text, /wave 2\/2 {2}plant-a2 {12}✗ {3}plant-a2: check \/up answered 502/)
  t.match(text, 'halted: 1 failed (allowed: 0). plant-a1 has')
  t.match(text, `next: svc rollout revert ${id}   or   svc rollout resume ${id}`)
  const record = async () => (await stage.client.get(`/api/logs/${deployId}`)).body
  t.match(await record(), { status: 'failed', errorMessage: `The rollout ${id} was halted: 1 failed (allowed: 0)` })
  t.match(hub.rollouts.node(id, 'plant-a2'), { phase: 'failed', output: 'the end' })
  second.answering = null
  await hub.rollouts.resume(id, ana)
  for await (const event of hub.rollouts.follow(id, new AbortController().signal))
    if (event.type === 'end') t.equal(event.rollout.state, 'done')
  while ((await record()).status !== 'success') await new Promise(resolve => setImmediate(resolve))
  t.match(await record(), { status: 'success', errorMessage: null })
})

t.test('a deployment that waits behind a rollout says which, since when, and what to do', async t => {
  const { stage, hub, project } = await openPlaced(t, ['plant-a1', 'plant-a2'], { pause: 600 })
  const pushes = [push(stage, project)]
  const list = () => hub.rollouts.list({ limit: 1 })[0]
  const { id } = await until(() => list()?.state === 'pausing' && list())
  const newest = async () => (await stage.client.get('/api/logs?limit=1')).body[0]
  pushes.push(push(stage, project))
  const { id: deployId } = await until(async () => (await newest()).status === 'queued' && newest())
  const record = async () => (await stage.client.get(`/api/logs/${deployId}`)).body
  const { since, until: end } = (await record()).rolloutAhead
  t.match((await record()).rolloutAhead, { id, state: 'pausing', since: hub.rollouts.node(id, 'plant-a1').updatedAt })
  const permit = (await stage.as(project.token).get(`/api/deploy/check?projectId=${project.id}`)).body
  t.match(permit, { deploymentsAhead: 2, rolloutAhead: { id, since } })
  t.match(
    await textOf(stage, deployId),
    `→ waits: rollout ${id} has paused since ${since}, until ${end}. "svc rollout approve ${id}" begins the next wave`
  )
  await stage.client.put(`/api/projects/${project.id}`, { policy: { rollout: { pause: 'approve' } } })
  await hub.rollouts.approve(id, ana)
  await until(async () => list()?.id !== id && list()?.state === 'approval')
  t.notOk('rolloutAhead' in (await record()), 'it does not wait any more')
  const last = push(stage, project)
  const waiting = await until(async () => (await newest()).status === 'queued' && newest())
  await until(async () => /for an approval since .*"svc rollout approve/.test(await textOf(stage, waiting.id)))
  await hub.rollouts.approve(list()?.id as string, ana)
  await Promise.all(pushes)
  await until(async () => list()?.deployId === waiting.id && list()?.state === 'approval')
  await hub.rollouts.approve(list()?.id as string, ana)
  t.match(eventsOf(await last).at(-1), { status: 'success' })
})

t.test('a cancel halts the rollout', async t => {
  const { stage, hub, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2'])
  const reached = new Promise<string>(resolve => {
    ;(nodes[1] as FakeNode).answering = ({ action, deployId }) => {
      if (action !== 'swap') return undefined
      resolve(deployId)
      return null
    }
  })
  const pushed = push(stage, project)
  const deployId = await reached
  t.equal((await stage.client.post(`/api/deployments/${deployId}/cancel`)).status, 200)
  t.match(eventsOf(await pushed).at(-1), { status: 'failed' })
  t.match(hub.rollouts.list({ limit: 1 })[0], { state: 'halted', haltedReason: 'Cancelled by admin' })
})

t.test('continues after a restart, and says the rest', async t => {
  const { stage, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2'], { pause: 'approve' })
  void push(stage, project).catch(() => {})
  const { fleet } = stage.server.services
  const list = () => stage.server.services.fleet.running()?.rollouts.list({ limit: 1 })[0]
  while (list()?.state !== 'approval') await new Promise(resolve => setTimeout(resolve, 10))
  const { id, deployId } = list() as { id: string; deployId: string }
  while (!(await textOf(stage, deployId)).includes('approval')) await new Promise(resolve => setTimeout(resolve, 10))
  await stage.restart()
  t.not(stage.server.services.fleet, fleet)
  const hub = await stage.server.services.fleet.hub()
  t.match((await stage.client.get(`/api/logs/${deployId}`)).body, { status: 'running' })
  for (const node of nodes) await node.connect(stage.url)
  await hub.rollouts.approve(id, ana)
  const { client } = stage
  while ((await client.get(`/api/logs/${deployId}`)).body.status === 'running')
    await new Promise(resolve => setTimeout(resolve, 10))
  t.match((await client.get(`/api/logs/${deployId}`)).body, { status: 'success' })
  const text = await textOf(stage, deployId)
  t.match(text, 'the server was restarted; the deployment continues')
  t.equal(text.match(/wave 1\/2 {2}plant-a1/g)?.length, 1, 'what was said is not repeated')
  t.match(text, /wave 2\/2 {2}plant-a2 {12}✓ good/)
})

t.test('rolls back with the archive of an earlier deployment, and refuses what needs a target here', async t => {
  const { stage, hub, project } = await openPlaced(t, ['plant-a1'])
  const { deployId } = eventsOf(await push(stage, project)).at(-1)
  const reply = await stage.client.post(`/api/deployments/${deployId}/rollback`)
  t.equal(reply.status, 200)
  while (stage.server.services.deployer.hasRunning(project.id)) await new Promise(resolve => setImmediate(resolve))
  t.match(hub.rollouts.list({ limit: 1 })[0], { deployId: reply.body.deployId, number: 2, state: 'done' })
  const place = `/api/projects/${project.id}`
  const refused = [
    await stage.client.get(`${place}/drift`),
    await stage.client.get(`${place}/verify`),
    await stage.client.get(`${place}/files`),
    await stage.client.get(`${place}/download?path=a.txt`),
    await stage.client.post(`${place}/undo`, {}),
    await stage.client.post(`${place}/repair`, {}),
    await stage.client.put(`${place}/maintenance`, { on: true }),
    await stage.client.post(`/api/deployments/${deployId}/rollback`, { mode: 'exact' })
  ]
  t.same(
    refused.map(({ status, body }) => [status, body.code]),
    refused.map(() => [409, 'project_is_placed'])
  )
  t.ok(existsSync(join(stage.home.deployments, `${reply.body.deployId}.zip`)))
})

t.test('refuses a deployment if all nodes are drained', async t => {
  const { stage, hub, project } = await openPlaced(t, ['plant-a1'])
  await hub.nodes.drain('plant-a1', true, ana)
  const { deployId, status } = eventsOf(await push(stage, project)).at(-1)
  t.equal(status, 'failed')
  t.match(await textOf(stage, deployId), 'all nodes of the project are drained')
})
