import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Deployment } from '../../lib/model/deployment.js'
import type { ListedRollout } from '../../lib/model/rollout.js'
import type { Marks } from '../../lib/model/marks.js'
import { startNodes } from '../support/real-nodes.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

/* A project on nodes waits for its confirmation on the hub: all nodes have the release, and all of them go back. */

/** A hub with two nodes, and a project on them that has a release. */
async function startStage(t: Parameters<typeof startServer>[0], policy: object) {
  const stage = await startServer(t)
  const { client } = stage
  const nodes = await startNodes(t, stage, [{ name: 'a' }, { name: 'b' }])
  const { id, token } = await stage.createProject('shop')
  const add = nodes.map(node => ({ node: node.id, deployPath: join(node.sites, 'shop') }))
  await client.patch(`/api/projects/${id}/placements`, { add })
  const texts = (): string[] => nodes.map(({ sites }) => readFileSync(join(sites, 'shop/index.html'), 'utf8'))
  const rowOf = async (deployId: string): Promise<Deployment> => (await client.get(`/api/logs/${deployId}`)).body
  const push = async (text: string, fields: Record<string, string> = {}): Promise<string> => {
    const form = new FormData()
    for (const [name, value] of Object.entries({ projectId: id, ...fields })) form.set(name, value)
    // The deployment continues without its follower.
    form.set('file', new Blob([new Uint8Array(await zipOf({ 'index.html': text }))]), 'a.zip')
    const headers = { authorization: `Bearer ${token}` }
    const answer = await fetch(`${stage.url}/api/deploy/upload`, { method: 'POST', headers, body: form })
    // The deployment continues without its follower.
    await answer.body?.cancel()
    return answer.headers.get('x-svc-deploy-id') as string
  }
  const hasEnded = async (deployId: string): Promise<Deployment> => {
    await until(async () => ['success', 'failed'].includes((await rowOf(deployId)).status))
    return rowOf(deployId)
  }
  const isHeld = (deployId: string) => until(async () => (await rowOf(deployId)).heldFor === 'confirm')
  const marks = async (): Promise<Marks> => (await client.get('/api/marks')).body
  await hasEnded(await push('one'))
  await client.put(`/api/projects/${id}`, { policy })
  return { stage, client, id, texts, rowOf, push, hasEnded, isHeld, marks }
}

t.test('a release on nodes is confirmed on the hub', async t => {
  const { stage, client, texts, push, hasEnded, isHeld, marks } = await startStage(t, { confirm: { seconds: 600 } })
  const deployId = await push('two')
  await isHeld(deployId)
  t.same(texts(), ['two', 'two'], 'all nodes have it')
  t.match((await marks()).waiting, [{ for: 'confirmation', deployId, rolloutId: null, until: /Z$/ }])

  await stage.restart()
  await isHeld(deployId)
  t.match((await marks()).waiting, [{ for: 'confirmation', deployId }], 'it waits on after a restart')
  await until(async () => (await client.post(`/api/deployments/${deployId}/confirm`)).status === 200)
  const row = await hasEnded(deployId)
  t.match(row, { status: 'success', heldFor: null, revertedAt: null, confirmSeconds: 600 })
  t.strictSame(
    row.steps.map(({ name, status }) => `${name} ${status}`),
    ['store success', 'rollout success', 'confirm success', 'cleanup success']
  )
  t.same(texts(), ['two', 'two'])
  t.same((await marks()).waiting, [])
})

t.test('without a confirmation, all nodes go back', async t => {
  const { client, texts, push, hasEnded, isHeld } = await startStage(t, {})
  const late = await hasEnded(await push('two', { confirmSeconds: '10' }))
  t.match(late, { status: 'failed', revertReason: 'confirm', revertedAt: /Z$/, heldFor: null })
  t.equal(late.errorMessage, 'Nobody confirmed the deployment within 10 s; the earlier files are back')
  t.same(texts(), ['one', 'one'])

  const reverted = await push('three', { confirmSeconds: '600' })
  await isHeld(reverted)
  t.equal((await client.post(`/api/deployments/${reverted}/revert`)).status, 200)
  t.match(await hasEnded(reverted), {
    status: 'failed',
    revertReason: 'operator',
    errorMessage: 'Reverted by admin; the earlier files are back'
  })
  t.same(texts(), ['one', 'one'])
})

t.test('a release whose rollout was reverted meanwhile cannot be confirmed', async t => {
  const { client, id, texts, push, hasEnded, isHeld } = await startStage(t, { confirm: { seconds: 600 } })
  const deployId = await push('two')
  await isHeld(deployId)
  const { rollouts } = (await client.get(`/api/rollouts?projectId=${id}`)).body as { rollouts: ListedRollout[] }
  t.equal((await client.post(`/api/rollouts/${rollouts[0]?.id}/revert`)).status, 200)
  t.match(await client.post(`/api/deployments/${deployId}/confirm`), { status: 409, body: { code: 'too_late' } })
  t.match(await hasEnded(deployId), { status: 'failed', revertReason: 'operator', revertedAt: /Z$/ })
  t.same(texts(), ['one', 'one'])
})
