import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deleteNode, insertNode, insertPlacement } from '../../lib/core/store/tables/fleet.js'
import type { Deployment } from '../../lib/model/deployment.js'
import { recordProgress } from '../../lib/deploy/record.js'
import type { PlanCheck } from '../../lib/model/plan.js'
import { type DeployStage, deployStage, never } from '../support/deploy-stage.js'
import { aNode } from '../support/fleet-stage.js'
import { startNodes } from '../support/real-nodes.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

/* A wish is carried out where the files of the project are, or refused with what to do instead; it is never dropped. */

type Test = Parameters<typeof startServer>[0]

/** A server with a project. With `isPlaced`, it is on a node. */
async function startStage(t: Test, { isPlaced, policy = {} }: { isPlaced: boolean; policy?: object }) {
  const stage = await startServer(t)
  const { client } = stage
  const project = await stage.createProject('shop')
  const { id } = project
  const place = async (): Promise<string> => {
    const [node] = await startNodes(t, stage, [{ name: 'a' }])
    const deployPath = join(node?.sites as string, 'shop')
    await client.patch(`/api/projects/${id}/placements`, { add: [{ node: node?.id, deployPath }] })
    return deployPath
  }
  const target = isPlaced ? await place() : project.deployPath
  await client.put(`/api/projects/${id}`, { policy })
  const page = join(target, 'index.html')
  const rowOf = async (deployId: string): Promise<Deployment> => (await client.get(`/api/logs/${deployId}`)).body
  const send = async (text: string, fields: Record<string, string> = {}): Promise<Response> => {
    const form = new FormData()
    for (const [name, value] of Object.entries({ projectId: id, ...fields })) form.set(name, value)
    form.set('file', new Blob([new Uint8Array(await zipOf({ 'index.html': text }))]), 'a.zip')
    const headers = { authorization: `Bearer ${project.token}` }
    return fetch(`${stage.url}/api/deploy/upload`, { method: 'POST', headers, body: form })
  }
  const hasEnded = async (deployId: string): Promise<Deployment> => {
    await until(async () => ['success', 'failed'].includes((await rowOf(deployId)).status))
    return rowOf(deployId)
  }
  const push = async (text: string, fields: Record<string, string> = {}): Promise<string> => {
    const answer = await send(text, fields)
    await answer.body?.cancel()
    return answer.headers.get('x-svc-deploy-id') as string
  }
  const rollBack = (deployId: string, wish: object) => client.post(`/api/deployments/${deployId}/rollback`, wish)
  return { client, id, page, rowOf, text: () => readFileSync(page, 'utf8'), send, push, hasEnded, rollBack }
}

t.test('a push of a project that is on no node takes nothing about waves', async t => {
  const { send, text, push, hasEnded } = await startStage(t, { isPlaced: false })
  t.equal((await hasEnded(await push('one'))).status, 'success')
  const answer = await send('two', { rollout: '{"canary": 2}' })
  t.equal(answer.status, 409)
  t.match(await answer.json(), { code: 'not_placed', error: /^Cannot roll out "shop" in waves: .*svc fleet place/ })
  t.equal(text(), 'one')
  t.equal((await hasEnded(await push('two', { rollout: '{}' }))).status, 'success', 'nothing is asked for')
})

t.test('a rollback by force replaces edited files, exact or not', async t => {
  const { push, hasEnded, page, text, rollBack } = await startStage(t, {
    isPlaced: false,
    policy: { drift: 'refuse' }
  })
  const first = await push('one')
  await hasEnded(first)
  await hasEnded(await push('two'))
  writeFileSync(page, 'edited')
  t.match((await rollBack(first, {})).body, { success: false, error: /edited/ })
  const wouldBe = async (wish: object): Promise<boolean> => {
    const { checks } = (await rollBack(first, { dryRun: true, ...wish })).body as { checks: PlanCheck[] }
    return checks.find(({ name }) => name === 'edited_files')?.ok as boolean
  }
  t.same([await wouldBe({}), await wouldBe({ force: true })], [false, true])
  t.match((await rollBack(first, { force: true })).body, { success: true })
  t.equal(text(), 'one')
})

t.test('a rollback on nodes does what was asked for, or nothing', async t => {
  const { push, hasEnded, text, rollBack, client, id } = await startStage(t, { isPlaced: true })
  const first = await push('one')
  await hasEnded(first)
  await hasEnded(await push('two'))
  const refused = { status: 409, body: { code: 'project_is_placed' } }
  t.match(await rollBack(first, { mode: 'exact' }), refused)
  t.match(await rollBack(first, { force: true }), refused)
  t.match(await rollBack(first, { mode: 'overlay', force: true }), refused)
  t.match(
    (await rollBack(first, { dryRun: true })).body,
    { mode: 'overlay', problem: { code: 'project_is_placed' } },
    'the directory on the hub is not the project'
  )
  await client.put(`/api/projects/${id}`, { policy: { rollback: 'exact' } })
  t.match(await rollBack(first, {}), { ...refused, body: { error: /svc rollback --overlay/ } })
  t.match((await rollBack(first, { dryRun: true })).body, { problem: { code: 'project_is_placed' } })
  t.equal(text(), 'two')
  t.match((await rollBack(first, { mode: 'overlay' })).body, { success: true })
  t.equal(text(), 'one')
})

t.test('a project loses its nodes while a push about waves waits', async t => {
  const policy = { approval: { count: 1, roles: ['operator'], notPusher: true, hours: 24 } }
  const { client, id, push, hasEnded, rowOf } = await startStage(t, { isPlaced: true, policy })
  const late = await push('one', { rollout: '{"canary": 2}' })
  t.match(await rowOf(late), { status: 'queued', heldFor: 'approval' })
  const { placements } = (await client.get(`/api/projects/${id}/placements`)).body
  const { nodeId } = placements[0]
  t.match(await client.patch(`/api/projects/${id}/placements`, { remove: [nodeId] }), { status: 409 })
  t.match(await client.delete(`/api/nodes/${nodeId}`), { status: 200 })
  const { treeSha256 } = await rowOf(late)
  t.match(await client.post(`/api/deployments/${late}/approve`, { treeSha256 }), { status: 200 })
  t.match(await hasEnded(late), {
    status: 'failed',
    errorMessage: /"shop" was on nodes .* is on none now/
  })
})

/** Places a project on a node that never answers. */
async function place({ store }: DeployStage, projectId: string): Promise<void> {
  const nothing = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
  await store.write(tx => {
    insertNode(tx, aNode('a'))
    insertPlacement(tx, { projectId, nodeId: 'node_a', deployPath: '/srv/a', ...nothing })
  })
}

t.test('what was accepted for nodes never goes into a directory of the server', async t => {
  const first = await deployStage(t)
  const project = await first.addProject()
  await place(first, project.id)
  const startAt = new Date(Date.now() + 60_000).toISOString()
  const { deployId } = await first.push(project, { a: '1' }, { startAt })
  await first.store.write(tx => deleteNode(tx, 'node_a'))
  t.match(await first.deployer.planWaiting(deployId, never), { problem: { code: 'not_placed' } })
  const second = await first.restart()
  await second.store.write(tx => recordProgress(tx, deployId, { holdUntil: new Date().toISOString() }))
  const third = await second.restart()
  await until(() => third.row(deployId).status === 'failed')
  t.match(third.row(deployId), { errorMessage: /"Shop" was on nodes .* is on none now/ })
  t.notOk(existsSync(project.deployPath))
  t.match(await third.deploy(project, { a: '2' }), { status: 'success' }, 'a push that was not for nodes')
})

t.test(
  'a hub of a cluster puts nothing into its own directories, also when the node was forgotten meanwhile',
  async t => {
    const copies = { keep: async () => [], ensure: async () => {} }
    const stage = await deployStage(t, undefined, {}, { copies })
    const project = await stage.addProject()
    await place(stage, project.id)
    const startAt = new Date(Date.now() + 3_000).toISOString()
    const run = await stage.push(project, { a: '1' }, { startAt })
    await stage.store.write(tx => deleteNode(tx, 'node_a'))
    await until(() => stage.row(run.deployId).status === 'failed')
    t.match(stage.row(run.deployId), { errorMessage: /is on no node of the cluster/ })
    t.notOk(existsSync(project.deployPath))
  }
)

for (const [revertScript, ran] of [
  ['post', 'abababf'],
  ['none', 'ababf']
]) {
  t.test(`a revert on nodes runs what the policy revertScript says: ${revertScript}`, async t => {
    const policy = { revertScript, onFailureScript: 'echo f >> ../ran' }
    const { client, id, push, hasEnded, page, text } = await startStage(t, { isPlaced: true, policy })
    const scripts = { preDeployScript: 'echo a >> ../ran', postDeployScript: 'echo b >> ../ran' }
    await client.put(`/api/projects/${id}`, scripts)
    await hasEnded(await push('one'))
    await hasEnded(await push('two'))
    const last = async () => (await client.get(`/api/rollouts?projectId=${id}`)).body.rollouts[0]
    t.match(await client.post(`/api/rollouts/${(await last()).id}/revert`), { status: 200 })
    await until(async () => (await last()).state === 'reverted')
    t.equal(text(), 'one')
    t.equal(readFileSync(join(page, '../../ran'), 'utf8').replaceAll('\n', ''), ran)
  })
}

t.test('the output says that a script in the background reverts nothing, whatever the policy', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'exit 1', policy: { onPostFailure: 'revert' } })
  const said = /runs in the background: its failure puts nothing back \(onPostFailure\)/
  const reverted = await stage.deploy(project, { a: '1' })
  t.match(reverted, { status: 'failed', revertReason: 'post' })
  t.notMatch(await stage.output(reverted.id), said)
  await stage.change(project, { postDeployAsync: true })
  const kept = await stage.deploy(project, { a: '1' })
  t.match(kept, { status: 'success', revertReason: null })
  t.match(await stage.output(kept.id), said)
})
