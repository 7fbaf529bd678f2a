import t from 'tap'
import type { Test } from 'tap'
import { join } from 'node:path'
import type { AccessRole } from '../../lib/model/access.js'
import { setClock } from '../support/clock.js'
import { eventsOf } from '../support/client.js'
import { signIn } from '../support/session.js'
import { openStream } from '../support/sse.js'
import { type Stage, startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startReceiver } from '../support/receiver.js'

async function create(stage: Stage, role: AccessRole, fields: object = {}): Promise<{ token: string; id: string }> {
  const name = `${role} ${Math.random()}`
  const { status, body, text } = await stage.client.post('/api/tokens', { name, role, ...fields })
  if (status !== 200) throw new Error(text)
  return { token: body.token, id: body.record.id }
}

async function push(stage: Stage, token: string, projectId: string) {
  const bytes = await zipOf({ 'index.html': 'new' })
  return await stage.as(token).upload([
    ['projectId', projectId],
    ['file', { filename: 'a.zip', bytes }]
  ])
}

async function twoProjects(t: Test, options: Parameters<typeof startServer>[1] = {}) {
  const stage = await startServer(t, options)
  const fields = { preDeployScript: 'echo the-pre-script' }
  return { stage, shop: await stage.createProject('shop', fields), blog: await stage.createProject('blog', fields) }
}

t.test('creates, lists, changes, rotates and revokes tokens', async t => {
  const { stage, shop } = await twoProjects(t)
  const made = await stage.client.post('/api/tokens', { name: ' ci-shop ', role: 'deployer', projectIds: [shop.id] })
  t.match(made, { status: 200, body: { success: true, token: /^svc_[a-z2-7]{8}_/, record: { name: 'ci-shop' } } })
  const { token, record } = made.body
  const list = await stage.client.get('/api/tokens')
  t.match(list.body, {
    items: [{ id: record.id, role: 'deployer', secondFactor: false }],
    builtIn: [{ kind: 'admin' }, { kind: 'project', projectName: /shop|blog/ }, { kind: 'project' }]
  })
  t.notMatch(list.text, token.slice(13))
  t.notMatch(list.text, shop.token)
  t.match((await stage.as(token).get('/api/tokens/self')).body, { id: record.id, name: 'ci-shop' })
  t.match(await stage.client.get('/api/tokens/self'), { status: 404 })
  t.match(await stage.as(token).get('/api/tokens'), { status: 403, body: { code: 'role_too_low' } })
  t.match((await stage.as(token).get('/api/auth/whoami')).body, {
    role: 'deployer',
    name: 'token:ci-shop',
    token: { id: record.id, expiresAt: record.expiresAt },
    projects: [{ id: shop.id, name: 'shop' }]
  })

  const renamed = await stage.client.patch(`/api/tokens/${record.id}`, { name: 'ci', role: 'operator' })
  t.match(renamed.body, { record: { name: 'ci', role: 'operator', projectIds: [shop.id] } })
  const rotated = await stage.client.post(`/api/tokens/${record.id}/rotate`, { overlapSeconds: 60 })
  t.equal((await stage.as(rotated.body.token).get('/api/projects')).status, 200)
  t.equal((await stage.as(token).get('/api/projects')).status, 200, 'the overlap')
  t.match(await stage.client.post(`/api/tokens/${record.id}/rotate`, { overlapSeconds: 86_401 }), { status: 400 })
  t.match(await stage.client.delete(`/api/tokens/${record.id}`), {
    status: 200,
    body: { record: { revokedAt: /^20/ } }
  })
  for (const secret of [token, rotated.body.token]) t.equal((await stage.as(secret).get('/api/projects')).status, 401)
  t.match(await stage.client.delete('/api/tokens/admin'), { status: 409, body: { code: 'last_admin' } })
  const { body: audit } = await stage.client.get('/api/audit')
  const actions = audit.items
    .map(({ action }: { action: string }) => action)
    .filter((each: string) => /^token/.test(each))
  t.same(actions, ['token.revoke', 'token.rotate', 'token.update', 'token.create'])
})

t.test('lists contain only the projects of the scope', async t => {
  const { stage, shop, blog } = await twoProjects(t)
  for (const { id, token } of [shop, blog]) await push(stage, token, id)
  await stage.client.post(`/api/projects/${blog.id}/log-sources`, { items: [{ filePath: '/var/log/blog.log' }] })
  await stage.client.put(`/api/projects/${blog.id}/lock`, { reason: 'the-lock-of-blog' })
  const { token } = await create(stage, 'operator', { projectIds: [shop.id] })
  const client = stage.as(token)
  const pages = [
    '/api/projects',
    '/api/logs',
    '/api/logs?status=success',
    '/api/overview?days=7',
    '/api/locks?kind=all',
    '/api/log-sources',
    '/api/audit',
    '/api/search?q=blog',
    '/api/search?q=o',
    '/api/stats/durations',
    '/api/stats/heatmap',
    '/api/stats/success-rate'
  ]
  for (const page of pages.map(page => page.replace('?kind=all', ''))) {
    const reply = await client.get(page)
    t.equal(reply.status, 200, page)
    t.notMatch(reply.text, blog.id, page)
    t.notMatch(reply.text, /the-lock-of-blog|blog\.log/, page)
  }
  t.equal((await client.get('/api/logs')).headers['x-total-count'], '1')
  t.match((await client.get('/api/overview')).body, { status: { projectCount: 1, deploymentCount: 1 } })
  const total = (cells: Array<{ count: number }>) => cells.reduce((sum, { count }) => sum + count, 0)
  t.equal(total((await client.get('/api/stats/heatmap?days=3')).body.cells), 1)
  t.equal(total((await stage.client.get('/api/stats/heatmap?days=3')).body.cells), 2)
  for (const page of [`/api/projects/${blog.id}`, `/api/logs?projectId=${blog.id}`, `/api/projects/${blog.id}/tree`])
    t.match(await client.get(page), { status: 404 }, page)
  t.match(await client.get('/api/system/resources'), { status: 403, body: { code: 'scope_too_narrow' } })
})

t.test('below admin nobody reads deploy tokens, and scripts only if the token says so', async t => {
  const { stage, shop } = await twoProjects(t)
  await push(stage, shop.token, shop.id)
  for (const role of ['viewer', 'deployer', 'operator'] as const) {
    for (const showScripts of [false, true]) {
      const client = stage.as((await create(stage, role, { showScripts })).token)
      for (const page of ['/api/projects', `/api/projects/${shop.id}`, '/api/logs', '/api/overview']) {
        const { text } = await client.get(page)
        t.notMatch(text, shop.token, `${role}: ${page}`)
        if (page.includes('projects')) {
          t.equal(text.includes('the-pre-script'), showScripts || role === 'operator', `${role}: ${page}`)
        }
      }
      // What the script printed is in the output, which everybody may read.
      const { body } = await client.get(`/api/logs?output=none`)
      t.equal(JSON.stringify(body).includes('the-pre-script'), showScripts || role === 'operator', `${role}: records`)
    }
  }
  t.match((await stage.client.get(`/api/projects/${shop.id}`)).text, shop.token)
})

t.test('a deployer uploads to its projects, and cancels and reverts its own deployments only', async t => {
  const { stage, shop, blog } = await twoProjects(t)
  const mine = await create(stage, 'deployer', { projectIds: [shop.id] })
  const other = await create(stage, 'deployer')
  const viewer = await create(stage, 'viewer')
  const pushed = await push(stage, mine.token, shop.id)
  const { deployId, status } = eventsOf(pushed).at(-1)
  t.equal(status, 'success')
  t.match((await stage.client.get(`/api/logs/${deployId}`)).body, { actor: /^token:deployer/, tokenId: mine.id })
  t.match(await push(stage, mine.token, blog.id), { status: 404 })
  t.match(await push(stage, viewer.token, shop.id), { status: 403, body: { code: 'role_too_low' } })
  t.match(await stage.as(mine.token).get(`/api/deploy/check?projectId=${shop.id}`), { status: 200 })
  t.match(await stage.as(mine.token).get(`/api/deploy/check?projectId=${blog.id}`), {
    status: 404,
    body: { code: 'no_such_project' }
  })
  const cancel = (token: string) => stage.as(token).post(`/api/deployments/${deployId}/cancel`, {})
  t.match(await cancel(mine.token), { status: 409, body: { code: 'already_finished' } }, 'it may')
  t.match(await cancel(other.token), { status: 403, body: { code: 'role_too_low' } })
  t.match(await cancel(viewer.token), { status: 403, body: { code: 'role_too_low' } })
  t.match(await stage.as(mine.token).post(`/api/deployments/${deployId}/rollback`, {}), { status: 403 })
  const operator = await create(stage, 'operator')
  t.match(await cancel(operator.token), { status: 409 })
})

t.test('a session has the rights of its token, and ends with it', async t => {
  const { stage, shop, blog } = await twoProjects(t)
  const { token, id } = await create(stage, 'viewer', { projectIds: [shop.id] })
  const session = await signIn(stage.as(null), { token })
  const nobody = stage.as(null)
  const asked = { cookie: session.cookie }
  t.match((await nobody.get('/api/auth/session', asked)).body, { role: 'viewer', token: { id }, projects: [shop.id] })
  t.match(await nobody.get(`/api/projects/${shop.id}`, asked), { status: 200, body: { token: null } })
  t.match(await nobody.get(`/api/projects/${blog.id}`, asked), { status: 404 })
  t.match(await nobody.post('/api/projects', { name: 'x' }, session.headers), {
    status: 403,
    body: { code: 'role_too_low' }
  })
  const { body: ticket } = await nobody.post('/api/tickets', { purpose: 'download' }, session.headers)
  t.match(await nobody.get(`/api/migration/export?ticket=${ticket.ticket}`), {
    status: 403,
    body: { code: 'role_too_low' }
  })
  t.match((await stage.client.get('/api/sessions')).body.sessions, [{ tokenId: id }])

  await stage.client.delete(`/api/tokens/${id}`)
  t.match(await nobody.get('/api/projects', asked), { status: 401 })
  t.match((await stage.client.get('/api/sessions')).body.sessions, [])
  t.match(await nobody.post('/api/auth/login', { token, session: true }), {
    status: 401,
    body: { code: 'token_revoked' }
  })
})

t.test('streams of a token end when it is revoked', async t => {
  const { stage, shop } = await twoProjects(t)
  const filePath = join(t.testdir({ 'app.log': 'one line\n' }), 'app.log')
  const { body } = await stage.client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath }] })
  const { token, id } = await create(stage, 'viewer', { projectIds: [shop.id] })
  const stream = await openStream(stage.as(token), `/api/log-sources/${body.items[0].id}/stream`)
  await stream.next('snapshot')
  await stage.client.delete(`/api/tokens/${id}`)
  await stream.ended
  t.match(await stage.as(token).get('/api/projects'), { status: 401, body: { code: 'token_revoked' } })
})

t.test('an expired token is named, and a cut one is recognized at the login', async t => {
  const clock = setClock(Date.now())
  const { stage } = await twoProjects(t, { clock })
  const { token } = await create(stage, 'viewer')
  t.match(await stage.as(null).post('/api/auth/login', { token: token.slice(0, 50) }), {
    status: 401,
    body: { code: 'wrong_token', error: /cut off/ }
  })
  clock.advance(91 * 24 * 60 * 60_000)
  t.match(await stage.as(token).get('/api/projects'), { status: 401, body: { code: 'token_expired' } })
})

const dayMs = 86_400_000

t.test('GET /api/access/report lists which tokens can deploy where', async t => {
  const { client, as, createProject } = await startServer(t, {
    settings: { global_deploy_token: 'the-global-deploy-token-1', allowed_ips: '127.0.0.0/8' }
  })
  const shop = await createProject('shop')
  const { token } = (
    await client.post('/api/tokens', {
      name: 'ci-shop',
      role: 'deployer',
      projectIds: [shop.id],
      allowedIps: ['127.0.0.0/8']
    })
  ).body
  t.equal((await as(token).get('/api/auth/whoami')).status, 200)
  const { status, body, text } = await client.get('/api/access/report')
  t.equal(status, 200)
  t.match(body, {
    rotateDays: 0,
    allowedIps: ['127.0.0.0/8'],
    tokens: [
      {
        name: 'ci-shop',
        role: 'deployer',
        allowedIps: ['127.0.0.0/8'],
        createdBy: 'admin',
        daysLeft: 90,
        lastUsedAt: String,
        lastUsedIp: '127.0.0.1',
        secondFactor: false,
        advice: []
      }
    ],
    builtIn: [{ kind: 'admin', lastUsedAt: String }, { kind: 'global' }, { kind: 'project', projectId: shop.id }],
    projects: [{ id: shop.id, name: 'shop', clientScripts: true, tokenIds: [body.tokens[0].id] }]
  })
  t.notMatch(text, token)
  t.notMatch(text, shop.token)
})

t.test('the list of tokens gives advice, and a reminder is sent before the end', async t => {
  const receiver = await startReceiver(t)
  const clock = setClock(Date.now())
  const stage = await startServer(t, {
    clock,
    settings: { webhook_url: receiver.url, webhook_events: 'token_expiring', token_rotate_days: '30' }
  })
  await stage.client.post('/api/tokens', { name: 'ci-shop', role: 'deployer' })
  const adviceNow = async () => (await stage.client.get('/api/tokens')).body.items[0].advice
  t.same(await adviceNow(), [])
  clock.advance(80 * dayMs)
  t.same(await adviceNow(), ['expires_soon', 'rotate'])
  await stage.restart()
  const [request] = await receiver.received(1)
  t.match(JSON.parse(request?.text as string), {
    event: 'token_expiring',
    token: { name: 'ci-shop', daysLeft: 10, projectIds: null }
  })
  await stage.restart()
  await stage.client.put('/api/settings', { token_rotate_days: '0' })
  t.same(await adviceNow(), ['expires_soon'])
  t.match((await stage.client.get('/api/audit?action=token.expiring')).body.items, [
    { actor: 'system', detail: /^ci-shop, expires / }
  ])
  t.equal(receiver.requests.length, 1, 'once, also after a restart')
})
