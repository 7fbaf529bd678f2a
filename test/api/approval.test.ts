import t from 'tap'
import type { Test } from 'tap'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { defaultApproval, type PolicyChanges } from '../../lib/model/policy.js'
import { eventsOf, type FormFields } from '../support/client.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

/* `POST /api/deployments/:id/approve` and `/reject`, and `GET /api/deployments/:id/plan`, with each of their refusals. */

async function heldServer(t: Test, policy: PolicyChanges = { approval: defaultApproval }) {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { policy: policy as never })
  const { client } = stage
  const caller = async (name: string, role: string, more: object = {}) =>
    stage.as((await client.post('/api/tokens', { name, role, ...more })).body.token)
  const [ana, ben, dan] = [
    await caller('ana', 'operator'),
    await caller('ben', 'operator'),
    await caller('dan', 'deployer')
  ]
  const row = async (id: string) => (await client.get(`/api/logs/${id}`)).body
  /** Pushes as ana, and resolves when the deployment waits. */
  async function push(text = 'one', fields: FormFields = []) {
    const known = new Set((await client.get('/api/logs')).body.map(({ id }: { id: string }) => id))
    const file = { filename: 'site.zip', bytes: await zipOf({ 'a.txt': text }) }
    const ended = ana.upload([['projectId', shop.id], ...fields, ['file', file]])
    ended.catch(() => {})
    let id = ''
    await until(async () => {
      const found = (await client.get('/api/logs?status=queued')).body.find((row: { id: string }) => !known.has(row.id))
      id = found?.id ?? ''
      return id !== ''
    })
    return { id, treeSha256: (await row(id)).treeSha256 as string, ended }
  }
  return { stage, shop, client, caller, ana, ben, dan, row, push, target: join(stage.sites, 'shop') }
}

t.test('approves what a plan has shown, and answers with the record', async t => {
  const { ben, dan, row, push, target } = await heldServer(t)
  const { id, treeSha256, ended } = await push()
  t.match(await dan.get(`/api/deployments/${id}/plan`), {
    status: 200,
    body: { counts: { added: 1 }, paths: { added: ['a.txt'] }, problem: null, to: { deployId: id, treeSha256 } }
  })
  t.notOk(existsSync(target), 'a plan changes nothing')
  const comment = 'looks good'
  const approved = await ben.post(`/api/deployments/${id}/approve`, { treeSha256, comment: ` ${comment} ` })
  const decision = { decision: 'approved', name: 'token:ben', comment, treeSha256 }
  t.match(approved, { status: 200, body: { success: true, deployment: { id, heldFor: null, approvals: [decision] } } })
  t.match(eventsOf(await ended).at(-1), { event: 'status', status: 'success', deployId: id })
  t.match(await row(id), { status: 'success', approvals: [decision] })
  t.match(await ben.get(`/api/deployments/${id}/plan`), { status: 409, body: { code: 'not_waiting' } })
  for (const path of ['approve', 'reject'])
    t.match(await ben.post(`/api/deployments/${id}/${path}`, path === 'approve' ? { treeSha256 } : undefined), {
      status: 409,
      body: { code: 'already_decided', error: /it was approved by ben at 2/ }
    })
})

t.test('rejects with and without a comment', async t => {
  const { ben, push, target } = await heldServer(t)
  for (const comment of ['not on a Friday', undefined]) {
    const { id, ended } = await push()
    const rejected = await ben.post(`/api/deployments/${id}/reject`, comment === undefined ? undefined : { comment })
    const errorMessage = comment === undefined ? 'Rejected by ben' : `Rejected by ben: ${comment}`
    const decision = { decision: 'rejected', name: 'token:ben', comment: comment ?? null, treeSha256: null }
    const deployment = { id, status: 'failed', errorMessage, heldFor: null, duration: '0.00s', approvals: [decision] }
    t.match(rejected, { status: 200, body: { success: true, deployment } })
    t.match(eventsOf(await ended).at(-1), { event: 'status', status: 'failed' })
    t.match(await ben.post(`/api/deployments/${id}/reject`), { status: 409, body: { code: 'already_decided' } })
  }
  t.notOk(existsSync(target))
})

t.test('refuses each decision that is not allowed, and the deployment waits on', async t => {
  const { stage, shop, client, caller, ana, ben, dan, row, push } = await heldServer(t)
  const { id, treeSha256 } = await push()
  const [viewer, stranger] = [
    await caller('eve', 'viewer'),
    await caller('sam', 'operator', { projectIds: [(await stage.createProject('other')).id] })
  ]
  const at = `/api/deployments/${id}`
  const refusals: Array<[what: string, reply: ReturnType<typeof ben.post>, status: number, code: string]> = [
    ['the pusher', ana.post(`${at}/approve`, { treeSha256 }), 403, 'own_push'],
    ['a deployer', dan.post(`${at}/approve`, { treeSha256 }), 403, 'not_an_approver'],
    ['a deployer rejects', dan.post(`${at}/reject`), 403, 'not_an_approver'],
    ['another tree', ben.post(`${at}/approve`, { treeSha256: '0'.repeat(64) }), 409, 'tree_differs'],
    ['a short tree', ben.post(`${at}/approve`, { treeSha256: treeSha256.slice(0, 8) }), 400, 'invalid_field'],
    ['no tree', ben.post(`${at}/approve`, { comment: 'ok' }), 400, 'invalid_field'],
    ['a long comment', ben.post(`${at}/approve`, { treeSha256, comment: 'a'.repeat(501) }), 400, 'invalid_field'],
    ['a long comment', ben.post(`${at}/reject`, { comment: 'a'.repeat(501) }), 400, 'invalid_field'],
    ['two lines', ben.post(`${at}/reject`, { comment: 'a\nb' }), 400, 'invalid_field']
  ]
  for (const [what, reply, status, code] of refusals) t.match(await reply, { status, body: { code } }, what)
  for (const [name, asked] of Object.entries({ viewer, 'the deploy token': stage.as(shop.token) })) {
    t.equal((await asked.post(`${at}/approve`, { treeSha256 })).status, 403, name)
    t.equal((await asked.post(`${at}/reject`)).status, 403, name)
  }
  for (const path of [at, '/api/deployments/dep_unknown']) {
    const asked = path === at ? stranger : ben
    t.match(await asked.get(`${path}/plan`), { status: 404, body: { code: 'not_found' } })
    t.match(await asked.post(`${path}/approve`, { treeSha256 }), { status: 404, body: { code: 'not_found' } })
    t.match(await asked.post(`${path}/reject`), { status: 404, body: { code: 'not_found' } })
  }
  t.match(await row(id), { status: 'queued', heldFor: 'approval', approvals: [] })
  const { items } = (await client.get('/api/audit?action=deployment.approve')).body
  t.same(items, [], 'nothing was recorded')
})

t.test('refuses what has been replaced, or does not wait for an approval', async t => {
  const { shop, client, ben, row, push } = await heldServer(t)
  const [older, newer] = [await push('old'), await push('new')]
  await ben.post(`/api/deployments/${newer.id}/approve`, { treeSha256: newer.treeSha256 })
  await newer.ended
  const { body } = await ben.get(`/api/deployments/${older.id}/plan`)
  t.match(body, { problem: { code: 'superseded', message: new RegExp(newer.id) } })
  t.match(await ben.post(`/api/deployments/${older.id}/approve`, { treeSha256: older.treeSha256 }), {
    status: 409,
    body: { code: 'superseded' }
  })
  t.match(await row(older.id), { heldFor: 'approval' }, 'it can still be rejected')
  t.match(await ben.post(`/api/deployments/${older.id}/reject`), { status: 200 })

  await client.put(`/api/projects/${shop.id}`, { policy: { approval: null } })
  const later = await push('later', [['startAt', new Date(Date.now() + 3_600_000).toISOString()]])
  t.match(await row(later.id), { heldFor: 'schedule' })
  t.match(await ben.get(`/api/deployments/${later.id}/plan`), { status: 200, body: { counts: { changed: 1 } } })
  const refused = { status: 409, body: { code: 'not_waiting' } }
  t.match(await ben.post(`/api/deployments/${later.id}/approve`, { treeSha256: newer.treeSha256 }), refused)
  t.match(await ben.post(`/api/deployments/${later.id}/reject`), refused)
  t.match(await client.post(`/api/deployments/${later.id}/cancel`), { status: 200 })
})
