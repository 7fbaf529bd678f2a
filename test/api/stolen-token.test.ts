import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { setClock } from '../support/clock.js'
import { treeMediaType } from '../../lib/core/archive/tree-wire.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { promisedRoutes } from '../support/access-rules.js'
import { createClient, eventsOf, formOf, type FormFields } from '../support/client.js'
import { startServer } from '../support/server.js'
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
  /** Sends half of an upload, then does something, then sends the rest. */
  const upload = async (token: string, meanwhile: () => unknown) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': contentType, 'content-length': body.length }
    const sent = request(`${stage.url}/api/deploy/upload`, { method: 'POST', headers })
    sent.write(body.subarray(0, body.length / 2))
    // The head and the first half are there.
    await sleep(200)
    await meanwhile()
    sent.end(body.subarray(body.length / 2))
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    return { status: answer.statusCode, text: await text(answer) }
  }
  const refused = { status: 401, text: /"code":"token_revoked"/ }
  const revoked = await mint('revoked')
  t.match(await upload(revoked.token, () => client.delete(`/api/tokens/${revoked.record.id}`)), refused)
  const rotated = await mint('rotated')
  t.match(await upload(rotated.token, () => client.post(`/api/tokens/${rotated.record.id}/rotate`, {})), refused)
  const kept = await mint('kept')
  const overlap = () => client.post(`/api/tokens/${kept.record.id}/rotate`, { overlapSeconds: 600 })
  const limited = await mint('limited')
  const other = await stage.createProject('other')
  const limit = () => client.patch(`/api/tokens/${limited.record.id}`, { projectIds: [other.id] })
  t.match(await upload(limited.token, limit), refused)
  t.match(await upload(shop.token, () => client.post(`/api/projects/${shop.id}/token`)), refused)
  t.same((await client.get('/api/logs')).body, [], 'nothing was deployed')
  t.match(await upload(kept.token, overlap), { status: 200 }, 'its earlier secret is valid')
  const late = await mint('late')
  const pass = () => clock.advance(91 * 24 * 60 * 60_000)
  t.match(await upload(late.token, pass), { status: 200, text: /"status":"success"/ }, 'one that expires finishes it')
})
