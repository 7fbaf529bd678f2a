import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { setClock } from '../support/clock.js'
import { treeMediaType } from '../../lib/core/archive/tree-wire.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { promisedRoutes } from '../support/access-rules.js'
import { createClient, eventsOf, formOf, type FormFields } from '../support/client.js'
import { adminToken, startServer } from '../support/server.js'
import { treeBody } from '../support/planned.js'
import { signIn } from '../support/session.js'
import { makeZip } from '../support/make-zip.js'
import { zipOf } from '../support/zip.js'

/*
 * The thief of a deployer's token, on a server that accepts no scripts from clients: docs/security.md says what it can
 * do. Everything else is tried, too.
 */

const secretText = 'the-secret-of-the-shop'

t.test('a stolen token of a deployer does what the document says, and nothing else', async t => {
  const stage = await startServer(t, {
    settings: { allow_client_scripts: 'false', webhook_secret: 'whsec_dGhlLXNlY3JldC1vZi10aGUtd2ViaG9vaw==' }
  })
  const { client } = stage
  const ran = join(stage.sites, 'ran')
  const shop = await stage.createProject('shop', { postDeployScript: `: ${secretText}` })
  const forum = await stage.createProject('forum')
  await client.put(`/api/projects/${shop.id}/variables`, {
    variables: [{ name: 'DB_PASSWORD', value: secretText, secret: true }]
  })
  const mint = async (name: string, role: string) =>
    (await client.post('/api/tokens', { name, role, projectIds: [shop.id] })).body.token as string
  const [stolen, owner] = [await mint('ci-shop', 'deployer'), await mint('ops', 'operator')]
  const thief = stage.as(stolen)
  const upload = async (as: typeof thief, files: Record<string, string>, ...more: FormFields) =>
    as.upload([['projectId', shop.id], ...more, ['file', { filename: 'a.zip', bytes: await zipOf(files) }]])
  const ofOwner = eventsOf(await upload(stage.as(owner), { 'index.html': 'good' })).at(-1).deployId as string

  await t.test('it replaces the files of its project', async t => {
    t.match(eventsOf(await upload(thief, { 'index.html': 'bad' })).at(-1), { status: 'success' })
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'bad')
  })

  await t.test('it runs no scripts, and leaves the target with no name', async t => {
    for (const field of ['preDeploy', 'postDeploy']) {
      const refused = await upload(thief, { a: 'a' }, [field, `touch ${ran}`])
      t.match(refused, { status: 403, body: { code: 'client_scripts_off' } }, field)
    }
    const given: FormFields = [['env', JSON.stringify({ BASH_ENV: ran, GIT_SSH: ran, SVC_DEPLOY_ID: 'x' })]]
    await upload(thief, { a: 'a' }, ...given)
    for (const name of ['../ran', '/tmp/ran', 'a/../../ran']) {
      const file = { filename: 'a.zip', bytes: makeZip({ entries: [{ name, data: 'x' }] }) }
      const last = eventsOf(
        await thief.upload([
          ['projectId', shop.id],
          ['file', file]
        ])
      ).at(-1)
      t.match(last, { status: 'failed' }, name)
    }
    t.throws(() => readFileSync(ran), { code: 'ENOENT' })
  })

  await t.test('it removes and takes back nothing that the policy of the project protects', async t => {
    for (const asks of ['prune=true', 'prune=force', 'force=1']) {
      const refused = await thief.post(`/api/deploy/plan?projectId=${shop.id}&${asks}`, {})
      t.match(
        refused,
        { status: 403, body: { code: 'deploy_token_may_not', error: /^The token "ci-shop" may not/ } },
        asks
      )
      const permitted = await stage.as(owner).post(`/api/deploy/plan?projectId=${shop.id}&${asks}`, {})
      t.equal(permitted.status, 415, 'an operator gets as far as the body, which is no tree')
    }
  })

  await t.test('it makes the policy of the project only stricter, also with the plan of somebody else', async t => {
    const policy = {
      drift: 'refuse',
      confirm: { seconds: 60 },
      onPostFailure: 'revert',
      rollout: { canary: 1, pause: 'approve' }
    }
    await client.put(`/api/projects/${shop.id}`, { policy })
    const answer = await stage.as(owner).send('POST', `/api/deploy/plan?projectId=${shop.id}&prune=force&force=1`, {
      headers: { 'content-type': treeMediaType },
      body: await treeBody(shop.deployPath)
    })
    t.match(answer, { status: 200, body: { planId: /^plan_/ } }, 'an operator may')
    const global = 'global-deploy-token'
    await client.put('/api/settings', { global_deploy_token: global })
    const looser: FormFields[] = [
      [['rollout', '{"pause":0}']],
      [['rollout', '{"canary":1000,"maxFailures":1000,"onFailure":"halt"}']],
      [['confirmSeconds', '86400']],
      [['postDeployAsync', 'true']],
      [['planId', answer.body.planId]]
    ]
    for (const fields of looser) {
      for (const token of [stolen, shop.token, global]) {
        const refused = await upload(stage.as(token), { a: 'a' }, ...fields)
        t.match(refused, { status: 403, body: { code: 'deploy_token_may_not' } }, `${token}: ${fields.join()}`)
      }
    }
    t.match(await stage.as(global).post(`/api/deploy/plan?projectId=${shop.id}&prune=force`, {}), {
      status: 403,
      body: { code: 'deploy_token_may_not' }
    })
    t.match(
      await stage.as(shop.token).put(`/api/projects/${shop.id}/maintenance`, { on: true, force: true }),
      { status: 403, body: { code: 'deploy_token_may_not' } },
      'the maintenance file does not replace an edited one either'
    )
    await client.put(`/api/projects/${shop.id}`, {
      policy: { drift: null, confirm: null, onPostFailure: null, rollout: null }
    })
    await client.put('/api/settings', { global_deploy_token: '' })
  })

  await t.test('it reads no secret, no script, and nothing of another project', async t => {
    const answers: string[] = []
    const ids: Record<string, string[]> = {
      project: [shop.id, forum.id],
      deployment: [ofOwner],
      logSource: ['log_none']
    }
    for (const [route, { concern }] of promisedRoutes()) {
      const [method = '', path = ''] = route.split(' ')
      if (method !== 'GET' || /\/(stream|ws|export|backup)$/.test(path)) continue
      for (const id of ids[concern] ?? ['none']) answers.push((await thief.get(path.replace(/:\w+/, id))).text)
    }
    t.ok(answers.some(text => text.includes('shop')))
    for (const secret of [secretText, shop.token, forum.token, 'whsec_', stolen])
      t.notOk(
        answers.some(text => text.includes(secret)),
        secret
      )
    t.notOk(answers.some(text => text.includes(forum.name) || text.includes(forum.deployPath)))
  })

  await t.test('it cannot find out by a search what it may not read', async t => {
    const found = async (as: typeof thief, q: string): Promise<string> => (await as.get(`/api/search?q=${q}`)).text
    const nothing = (await found(thief, 'zzzzzzzz')).replaceAll('zzzzzzzz', '…')
    for (const hidden of [secretText, 'forum', 'webhook_secret', 'settings.update'])
      t.equal((await found(thief, hidden)).replaceAll(hidden, '…'), nothing, hidden)
    t.match(await found(client, 'forum'), forum.id)
  })

  await t.test('it deploys only from the addresses of allowed_ips', async t => {
    t.equal((await client.put('/api/settings', { allowed_ips: '127.0.0.1' })).status, 200)
    const distant = createClient(() => stage.url, stolen, { localAddress: '127.9.9.9' })
    const refusal = { status: 403, body: { code: 'address_not_allowed' } }
    t.match(await upload(distant, { a: 'a' }), refusal)
    t.match(await distant.get(`/api/deploy/check?projectId=${shop.id}`), refusal)
    t.match(await distant.post(`/api/deployments/${ofOwner}/cancel`), refusal)
    t.match(await distant.get('/api/projects'), { status: 200 }, 'the addresses of the token itself limit reading')
    await client.put('/api/settings', { allowed_ips: '' })
  })

  await t.test('it changes nothing else', async t => {
    const { body: before } = await client.get(`/api/projects/${shop.id}`)
    const settings = (await client.get('/api/settings')).body
    const bodies: unknown[] = [
      {},
      { name: 'mine', role: 'admin', status: 'success', reason: 'mine', on: true, allow_client_scripts: 'true' },
      { deployPath: '/tmp/mine', preDeployScript: `touch ${ran}`, projectIds: null, purpose: 'terminal' }
    ]
    const own =
      /^POST \/api\/(auth\/(login|prove|second-factor)|agent\/enroll|tickets|deploy\/|uploads|public\/|projects\/:id\/promote$)|^(DELETE|PATCH) \/api\/uploads\/|^DELETE \/api\/auth\/(session|second-factor)/
    const inRoutes = apiRoutes(stage.server.services.api).filter(({ method }) => method !== 'GET')
    for (const { method, path } of inRoutes) {
      if (own.test(`${method} ${path}`)) continue
      const id = path.startsWith('/api/projects/') ? shop.id : ofOwner
      for (const body of bodies) {
        const headers = { 'content-type': 'application/json' }
        const { status } = await thief.send(method, path.replace(/:\w+/, id), { headers, body: JSON.stringify(body) })
        // A route of agents accepts the signature of a node, and no token.
        // A policy may let deployers approve. This one does not, and the deployment does not wait.
        const isDecision = /\/(approve|reject)$/.test(path) && path.startsWith('/api/deployments/')
        const refusals = path.startsWith('/api/agent/') ? [401] : isDecision ? [400, 409] : [403, 404]
        t.ok(refusals.includes(status), `${method} ${path}: ${status}`)
      }
    }
    const { body: after } = await client.get(`/api/projects/${shop.id}`)
    t.same({ ...after, updatedAt: '' }, { ...before, updatedAt: '' })
    t.same((await client.get('/api/settings')).body, settings)
    t.equal((await client.get('/api/tokens')).body.items.length, 2)
  })

  await t.test('its tickets open no terminal and no file', async t => {
    for (const purpose of ['terminal', 'download']) {
      const { body } = await thief.post('/api/tickets', { purpose })
      for (const path of [`/api/projects/${shop.id}/download`, '/api/terminal/ws', '/api/migration/export'])
        t.match((await stage.as(null).get(`${path}?ticket=${body.ticket}&path=index.html`)).status, /40[13]/, path)
    }
  })

  await t.test('a session of the panel that it opens has its rights, and ends with it', async t => {
    const { headers } = await signIn(stage.as(null), { token: stolen })
    const as = (method: string, path: string) => stage.as(null).send(method, path, { headers })
    t.match(await as('GET', '/api/settings'), { status: 403, body: { code: 'role_too_low' } })
    t.match(await as('POST', `/api/projects/${shop.id}/undo`), { status: 403, body: { code: 'role_too_low' } })
    const { items } = (await client.get('/api/tokens')).body
    const { id } = items.find(({ name }: { name: string }) => name === 'ci-shop')
    t.equal((await client.delete(`/api/tokens/${id}`)).status, 200)
    t.equal((await as('GET', '/api/projects')).status, 401)
    t.match(await thief.get('/api/projects'), { status: 401, body: { code: 'token_revoked' } })
    t.match(await upload(thief, { a: 'a' }), { status: 401, body: { code: 'token_revoked' } })

    const trace = (await client.get(`/api/audit?tokenId=${id}&limit=500`)).body.items as Array<{ action: string }>
    t.ok(trace.length > 0 && trace.every(({ action }) => !/^(settings|token|project)\./.test(action)))
  })
})

/** Begins a request, and returns what sends its body, once the server reads it. Undefined: it was answered before. */
async function begin(url: string, head: { method: string; headers: OutgoingHttpHeaders }) {
  const headers = { ...head.headers, expect: '100-continue' }
  const sent = request(url, { ...head, headers, agent: false })
  const response = once(sent, 'response') as Promise<[IncomingMessage]>
  sent.flushHeaders()
  const first = await Promise.race([once(sent, 'continue').then(() => 'body'), response.then(() => 'answer')])
  if (first === 'answer') return sent.destroy(), undefined
  return async (body: string | Uint8Array) => {
    sent.end(body)
    const [answer] = await response
    return { status: answer.statusCode, text: await text(answer) }
  }
}

const revoked = { status: 401, text: /"code":"token_revoked"/ }

t.test('an upload that arrives when its token ends deploys nothing', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const shop = await stage.createProject('shop')
  const { client } = stage
  const mint = async (name: string) => (await client.post('/api/tokens', { name, role: 'deployer' })).body
  const file = { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }
  const { contentType, body } = formOf([
    ['projectId', shop.id],
    ['file', file]
  ])
  /** Begins an upload, then does something, then sends the form. */
  const upload = async (by: string | Record<string, string>, meanwhile: () => unknown) => {
    const who = typeof by === 'string' ? { authorization: `Bearer ${by}` } : by
    const headers = { ...who, 'content-type': contentType, 'content-length': body.length }
    const finish = await begin(`${stage.url}/api/deploy/upload`, { method: 'POST', headers })
    await meanwhile()
    return await finish?.(body)
  }
  const removed = await mint('removed')
  const remove = () => client.delete(`/api/tokens/${removed.record.id}`)
  t.match(await upload(removed.token, remove), revoked)
  const rotated = await mint('rotated')
  t.match(await upload(rotated.token, () => client.post(`/api/tokens/${rotated.record.id}/rotate`, {})), revoked)
  const kept = await mint('kept')
  const overlap = () => client.post(`/api/tokens/${kept.record.id}/rotate`, { overlapSeconds: 600 })
  const limited = await mint('limited')
  const other = await stage.createProject('other')
  const limit = () => client.patch(`/api/tokens/${limited.record.id}`, { projectIds: [other.id] })
  t.match(await upload(limited.token, limit), revoked)
  const placed = await mint('placed')
  const move = () => client.patch(`/api/tokens/${placed.record.id}`, { allowedIps: ['192.0.2.1'] })
  t.match(await upload(placed.token, move), revoked, 'its address is not allowed any more')
  t.match(await upload(shop.token, () => client.post(`/api/projects/${shop.id}/token`)), revoked)
  const setGlobal = (token: string) => client.put('/api/settings', { global_deploy_token: token })
  await setGlobal('global-deploy-token')
  t.match(await upload('global-deploy-token', () => setGlobal('another-deploy-token')), revoked)
  const { headers } = await signIn(stage.as(null))
  const leave = () => stage.as(null).send('DELETE', '/api/auth/session', { headers })
  t.match(await upload(headers, leave), revoked, 'its session was signed out')
  const own = await signIn(stage.as(null), { token: (await mint('guarded')).token })
  const guarded = (await client.get('/api/tokens')).body.items.find(({ name }: { name: string }) => name === 'guarded')
  const rename = () => client.post(`/api/tokens/${guarded.id}/rotate`, {})
  t.match(await upload(own.headers, rename), revoked, 'the token of its session was rotated')
  t.same((await client.get('/api/logs')).body, [], 'nothing was deployed')
  t.match(await upload(kept.token, overlap), { status: 200 }, 'its earlier secret is valid')
  const late = await mint('late')
  const pass = () => clock.advance(91 * 24 * 60 * 60_000)
  t.match(await upload(late.token, pass), { status: 200, text: /"status":"success"/ }, 'one that expires finishes it')
})

t.test('no route takes a body that arrives when the right of its caller has ended', async t => {
  const stage = await startServer(t)
  const { client, url } = stage
  const shop = await stage.createProject('shop')
  const { token, record } = (await client.post('/api/tokens', { name: 'ana', role: 'admin' })).body
  const { uploadId } = (await stage.as(token).post('/api/uploads', { projectId: shop.id, bytes: 2 })).body
  const rows = apiRoutes(stage.server.services.api).filter(({ method, auth }) => {
    return method !== 'GET' && !['public', 'agent', 'local'].includes(auth)
  })
  const of = (type: string, more = {}) => ({ 'content-type': type, 'content-length': 2, ...more })
  const typeOf = (path: string) =>
    /upload$|import$/.test(path) ? formOf([]).contentType : /plan$/.test(path) ? treeMediaType : 'application/json'
  const open = async (by: string) => {
    const begun = rows.map(async ({ method, path }) => {
      const ids = method === 'PUT' ? shop.id : method === 'PATCH' ? uploadId : 'none'
      const headers = { ...of(typeOf(path), { 'upload-offset': 0 }), authorization: `Bearer ${by}` }
      const query = path === '/api/deploy/plan' ? `?projectId=${shop.id}` : ''
      const finish = await begin(url + path.replace(/:\w+/g, ids) + query, { method, headers })
      return [`${method} ${path}`, finish] as const
    })
    return (await Promise.all(begun)).flatMap(([route, finish]) => (finish === undefined ? [] : [{ route, finish }]))
  }
  for (const [by, end] of [
    [token, as => as.delete(`/api/tokens/${record.id}`)],
    [adminToken, as => as.post('/api/settings/token', { oldToken: adminToken, newToken: 'another-admin-token' })]
  ] as Array<[string, (as: typeof client) => ReturnType<typeof client.get>]>) {
    const waiting = await open(by)
    const last = async (as: typeof client) =>
      Math.max(...(await as.get('/api/audit?limit=9')).body.items.map(({ seq }: { seq: number | null }) => seq ?? 0))
    const before = await last(client)
    t.match(await end(client), { status: 200 })
    const answers = await Promise.all(waiting.map(async ({ route, finish }) => ({ route, ...(await finish('{}')) })))
    for (const { route, ...answer } of answers) t.match(answer, revoked, route)
    const now = by === token ? client : stage.as('another-admin-token')
    t.equal((await last(now)) - before, 1, 'nothing was done but this end')
    const routes: string[] = answers.map(({ route }) => route)
    const named = ['POST /api/migration/import', 'POST /api/settings/token', 'PUT /api/projects/:id/lock']
    const ofToken = ['POST /api/deploy/upload', 'PATCH /api/uploads/:id', 'POST /api/deploy/plan']
    const wanted = [...named, ...(by === token ? ofToken : [])]
    t.same(
      wanted.filter(route => !routes.includes(route)),
      []
    )
  }
})

t.test('what shows something goes on for as long as the right of its caller', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const shop = await stage.createProject('shop', { postDeployScript: 'while [ ! -e done ]; do sleep 0.1; done' })
  const uploading = stage.as(shop.token).open('POST', '/api/deploy/upload', form(shop.id, await zipOf({ a: 'a' })))
  const deployId = (await uploading).headers['x-svc-deploy-id'] as string
  t.teardown(() => client.post(`/api/deployments/${deployId}/cancel`))
  const path = `/api/logs/${deployId}/stream`
  const mint = async (name: string) => (await client.post('/api/tokens', { name, role: 'operator' })).body
  const [ana, bob, eve] = [await mint('ana'), await mint('bob'), await mint('eve')]
  const session = (await signIn(stage.as(null), { token: eve.token })).headers
  const change = (id: string, fields: object) => client.patch(`/api/tokens/${id}`, fields)
  const token = { oldToken: adminToken, newToken: 'another-admin-token' }
  const cases: Array<[string, Record<string, string>, () => unknown]> = [
    ['a token that is revoked', bearer(ana.token), () => client.delete(`/api/tokens/${ana.record.id}`)],
    ['one whose role is lowered', bearer(bob.token), () => change(bob.record.id, { role: 'viewer' })],
    ['a session of one whose role is lowered', session, () => change(eve.record.id, { role: 'viewer' })],
    ['the deploy token', bearer(shop.token), () => client.post(`/api/projects/${shop.id}/token`)],
    ['the admin token', bearer(adminToken), () => client.post('/api/settings/token', token)]
  ]
  for (const [what, headers, end] of cases) {
    const stream = await stage.as(null).open('GET', path, { headers })
    t.equal(stream.statusCode, 200, what)
    stream.resume()
    const closed = new Promise(resolve => stream.on('error', () => {}).on('close', () => resolve(stream.complete)))
    await end()
    t.equal(await closed, false, what)
  }
})

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

function form(projectId: string, bytes: Uint8Array) {
  const { contentType, body } = formOf([
    ['projectId', projectId],
    ['file', { filename: 'a.zip', bytes }]
  ])
  return { headers: { 'content-type': contentType }, body }
}
