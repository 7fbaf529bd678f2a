import t from 'tap'
import type { Test } from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventsOf, formOf } from '../support/client.js'
import { setClock } from '../support/clock.js'
import { zipOf } from '../support/zip.js'
import { adminToken, configOf, type Stage, startServer } from '../support/server.js'
import { codeOf } from '../../lib/access/second-factor.js'
import { signIn } from '../support/session.js'
import type { AccessRole } from '../../lib/model/access.js'
import { openStream } from '../support/sse.js'
import { startReceiver } from '../support/receiver.js'

const from = (address: string) => ({ 'x-forwarded-for': address })

t.test('login', async t => {
  const stage = await startServer(t)
  const token = stage.server.adminToken.current()
  const anonymous = stage.as(null)

  t.test('the admin token logs in', async t => {
    const { status, body } = await anonymous.post('/api/auth/login', { token })
    t.equal(status, 200)
    t.match(body, { success: true, message: String })
  })

  t.test('another token is refused with 401', async t => {
    const { status, body } = await anonymous.post('/api/auth/login', { token: 'wrong' }, from('192.0.2.1'))
    t.equal(status, 401)
    t.match(body, { success: false, message: String, error: String, code: 'wrong_token' })
  })

  t.test('a value that is not a token is refused with 400 and the name of the field', async t => {
    for (const body of [{}, { token: 5 }, { token: null }]) {
      const reply = await anonymous.post('/api/auth/login', body, from('192.0.2.2'))
      t.equal(reply.status, 400)
      t.match(reply.body, { field: 'token' })
    }
    t.equal((await anonymous.send('POST', '/api/auth/login', { body: 'token=x' })).status, 415)
  })

  t.test('logins and their failures are audited, without the token', async t => {
    const { body, text } = await stage.client.get('/api/audit')
    const actions = body.items.map((item: { action: string }) => item.action)
    t.ok(actions.includes('auth.login'))
    t.ok(actions.includes('auth.login_failed'))
    t.match(
      body.items.find((item: { action: string }) => item.action === 'auth.login_failed'),
      {
        actor: 'anonymous',
        ip: '192.0.2.1',
        ok: false
      }
    )
    t.notMatch(text, token)
    t.notMatch(text, 'wrong"')
  })
})

t.test('lockout', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const token = stage.server.adminToken.current()
  const login = (given: string, address: string) =>
    stage.as(null).post('/api/auth/login', { token: given }, from(address))
  const change = (oldToken: string, address: string) =>
    stage.client.post('/api/settings/token', { oldToken, newToken: 'another-token-12345678' }, from(address))

  t.test('8 failures of login and token change together lock out the client', async t => {
    for (let i = 0; i < 4; i++) t.equal((await login('wrong', '192.0.2.1')).status, 401)
    for (let i = 0; i < 4; i++) t.equal((await change('wrong', '192.0.2.1')).status, 401)
    for (const reply of [await login(token, '192.0.2.1'), await change(token, '192.0.2.1')]) {
      t.equal(reply.status, 429)
      t.equal(reply.headers['retry-after'], '300')
      t.match(reply.body, { success: false, code: 'locked_out' })
    }
  })

  t.test('another client is not locked out, and the first one can try again after 5 minutes', async t => {
    t.equal((await login(token, '192.0.2.2')).status, 200)
    t.equal((await stage.as(null).post('/api/auth/login', { token }, { 'x-real-ip': '192.0.2.1' })).status, 429)
    clock.advance(5 * 60_000)
    t.equal((await login(token, '192.0.2.1')).status, 200)
  })

  t.test('a client cannot avoid the lockout by inventing the first entry of X-Forwarded-For', async t => {
    const statuses = []
    for (let i = 0; i < 9; i++) statuses.push((await login('wrong', `10.9.0.${i}, 198.51.100.7`)).status)
    t.same(statuses, [...Array(8).fill(401), 429])
    t.equal((await login(token, '10.9.1.1, 198.51.100.7')).status, 429)
    t.equal((await login(token, '198.51.100.8')).status, 200)
  })

  t.test('a successful login does not reset the count of failures', async t => {
    for (let i = 0; i < 7; i++) await login('wrong', '198.51.100.9')
    t.equal((await login(token, '198.51.100.9')).status, 200)
    t.equal((await login('wrong', '198.51.100.9')).status, 401)
    t.equal((await login(token, '198.51.100.9')).status, 429)
  })

  t.test('40 correct logins at once do not count as failures', async t => {
    const replies = await Promise.all(Array.from({ length: 40 }, () => login(token, '198.51.100.10')))
    t.same([...new Set(replies.map(({ status }) => status))], [200])
  })
})

t.test('no route allows unlimited guesses of a token', async t => {
  const stage = await startServer(t, { clock: setClock(Date.now()) })
  const { as, createProject } = stage
  const project = await createProject('shop')
  // Of the form of generated tokens: others wait for their check.
  const guessed = 'Zq3-kX0vT8bLr2_mWc7yHn5dJf9gPs1aUe6oKi4tQxB'
  const guess = as(guessed)
  const terminal = {
    'sec-websocket-protocol': `svc-admin-token, ${guessed}`,
    upgrade: 'websocket',
    connection: 'upgrade'
  }
  const oracles: Array<[what: string, ask: (headers: Record<string, string>) => Promise<{ status: number }>]> = [
    ['an admin route', headers => guess.get('/api/projects', headers)],
    ['an upload', headers => guess.post('/api/deploy/upload', undefined, headers)],
    ['a project token on a deployment', headers => guess.get('/api/logs', headers)],
    ['a ticket', headers => as(null).get(`/api/projects/${project.id}/download?path=a&ticket=${guessed}`, headers)],
    ['the terminal', headers => as(null).send('GET', '/api/terminal/ws', { headers: { ...headers, ...terminal } })],
    ['login', headers => as(null).post('/api/auth/login', { token: 'a-guess' }, headers)]
  ]
  for (const [index, [what, ask]] of oracles.entries()) {
    const statuses = []
    for (let i = 0; i < 9; i++) statuses.push((await ask(from(`10.0.0.${i}, 192.0.2.${index}`))).status)
    t.same(statuses, [...Array(8).fill(401), 429], what)
    const { items } = (await stage.client.get('/api/audit?action=auth.login_failed&limit=1')).body
    t.match(items[0], { ip: `192.0.2.${index}`, claimedIp: '10.0.0.0', ok: false }, `${what} is audited`)
  }
  t.equal((await guess.get('/api/projects', from('192.0.2.77'))).status, 401, 'others are not locked out')
  t.equal(
    (await as(null).get('/api/projects', from('192.0.2.0'))).status,
    401,
    'a request without a token is not an attempt'
  )
})

t.test('a job with an old token locks out nobody with a right one', async t => {
  const stage = await startServer(t, { clock: setClock(Date.now()) })
  const { as, client, createProject, server } = stage
  const project = await createProject('shop')
  const address = from('192.0.2.1')
  const ci = (await client.post('/api/tokens', { name: 'ci', role: 'viewer' })).body.token
  const ticket = (await client.post('/api/tickets', { purpose: 'download' })).body.ticket
  const old = as(project.token.slice(1))
  for (let i = 0; i < 8; i++) t.equal((await old.get('/api/logs', address)).status, 401)
  const refused = await old.get('/api/logs', address)
  t.match(refused, { status: 429, body: { code: 'locked_out' }, headers: { 'retry-after': '300' } })

  t.equal((await as(project.token).get('/api/logs', address)).status, 200, 'a deploy token')
  t.equal((await as(ci).get('/api/projects', address)).status, 200, 'a named token')
  t.equal((await client.get('/api/projects', address)).status, 200, 'the admin token')
  const download = `/api/projects/${project.id}/download?path=a&ticket=${ticket}`
  t.equal((await as(null).get(download, address)).status, 404, 'a ticket')
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
  ])
  const headers = { 'content-type': contentType, ...address }
  const pushed = await as(project.token).send('POST', '/api/deploy/upload', { headers, body })
  t.match(eventsOf(pushed).at(-1), { status: 'success' }, 'a push')

  const token = server.adminToken.current()
  t.equal((await as(null).post('/api/auth/login', { token }, address)).status, 429, 'a login stays locked')
  const change = { oldToken: token, newToken: 'another-token-12345678' }
  t.equal((await client.post('/api/settings/token', change, address)).status, 429, 'a change of the token, too')
  t.equal((await as(null).post('/api/auth/login', { token }, from('192.0.2.2'))).status, 200)
})

t.test('failures count by the first entry of X-Forwarded-For, too', async t => {
  const stage = await startServer(t, { clock: setClock(Date.now()) })
  const token = stage.server.adminToken.current()
  const login = (given: string, address: string) =>
    stage.as(null).post('/api/auth/login', { token: given }, from(address))
  for (let i = 0; i < 8; i++) t.equal((await login('wrong', `10.0.0.1, 192.0.2.${i}`)).status, 401)
  t.match(await login('wrong', '10.0.0.1, 192.0.2.20'), { status: 429, headers: { 'retry-after': '300' } })
  t.equal((await login(token, '10.0.0.1, 192.0.2.21')).status, 200, 'anybody can invent that entry')
  t.equal((await login('wrong', '10.0.0.2, 192.0.2.22')).status, 401)
})

t.test('a page in a browser cannot lock out the command line of its machine', async t => {
  const { as, client, server } = await startServer(t, { clock: setClock(Date.now()) })
  const token = server.adminToken.current()
  const origin = { origin: 'http://rebound.test:5431' }
  for (let i = 0; i < 9; i++) await as(null).post('/api/auth/login', { token: 'guess' }, origin)
  t.equal((await as(null).post('/api/auth/login', { token }, origin)).status, 429)
  t.equal((await client.get('/api/projects')).status, 200)
})

t.test('the audit log sums up failures, so that they do not displace other entries', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  await stage.createProject('shop')
  for (let i = 0; i < 50; i++) await stage.as(null).post('/api/auth/login', { token: 'guess' }, from('192.0.2.1'))
  await stage.restart()
  const { items } = (await stage.client.get('/api/audit')).body
  t.match(
    items.filter(({ action }: { action: string }) => action === 'auth.login_failed'),
    [{ ip: '192.0.2.1', failures: 50, detail: '8 failed attempts, 42 refused without a check, the address is locked' }]
  )
  t.ok(items.some(({ action }: { action: string }) => action === 'project.create'))
})

t.test('token change', async t => {
  const stage = await startServer(t, { environment: { ADMIN_TOKEN: '' } })
  const first = stage.server.adminToken.current()
  t.equal(configOf(stage.home).adminToken, first)
  const change = (body: unknown) => stage.client.post('/api/settings/token', body)

  t.test('needs the old token, and at least 8 characters for the new one', async t => {
    t.equal((await change({ oldToken: 'wrong', newToken: 'long-enough-token' })).status, 401)
    for (const body of [
      { oldToken: first, newToken: 'seven77' },
      { oldToken: first },
      { oldToken: first, newToken: 12345678 }
    ]) {
      const reply = await change(body)
      t.equal(reply.status, 400)
      t.match(reply.body, { success: false, message: String, field: 'newToken' })
    }
    t.match((await change({ newToken: 'long-enough-token' })).body, { field: 'oldToken' })
  })

  t.test('the new token is valid immediately, and the old one is not', async t => {
    const { status, body } = await change({ oldToken: first, newToken: 'eight888' })
    t.equal(status, 200)
    t.match(body, { success: true, message: String })
    t.equal((await stage.client.get('/api/projects')).status, 401)
    t.equal((await stage.as('eight888').get('/api/projects')).status, 200)
    t.equal(configOf(stage.home).adminToken, 'eight888')
  })

  t.test('a reset in the file is valid immediately, too', async t => {
    writeFileSync(stage.home.configFile, JSON.stringify({ ...configOf(stage.home), adminToken: 'reset-by-hand' }))
    t.equal((await stage.as('eight888').get('/api/projects')).status, 401)
    t.equal((await stage.as('reset-by-hand').get('/api/projects')).status, 200)
  })

  t.test('the new token is still valid after a restart', async t => {
    await stage.restart()
    t.equal((await stage.as('reset-by-hand').get('/api/projects')).status, 200)
  })
})

t.test('tickets', async t => {
  const clock = setClock(Date.now())
  const { client, as } = await startServer(t, { clock })
  const output = (ticket: string) => as(null).get(`/api/logs/dep_unknown/output?ticket=${ticket}`)

  const { status, body } = await client.post('/api/tickets', { purpose: 'download' })
  t.equal(status, 200)
  t.match(body, { success: true, ticket: /^[\w-]{43}$/, expiresAt: new Date(clock.now() + 30_000).toISOString() })
  t.equal((await output(body.ticket)).status, 404, 'authorized, but the deployment does not exist')
  t.equal((await output(body.ticket)).status, 401, 'once')

  const terminal = await client.post('/api/tickets', { purpose: 'terminal' })
  t.equal((await output(terminal.body.ticket)).status, 401, 'valid only for its purpose')
  const late = await client.post('/api/tickets', { purpose: 'download' })
  clock.advance(30_000)
  t.equal((await output(late.body.ticket)).status, 401, 'for 30 seconds')
  const refused = await client.post('/api/tickets', { purpose: 'anything' })
  t.equal(refused.status, 400)
  t.match(refused.body, { field: 'purpose' })
})

t.test('whoami returns the role and project of a token, and no secret', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const shop = await stage.createProject('shop', { env: 'staging' })
  const cases: Array<[token: string, expected: object]> = [
    [adminToken, { role: 'admin', name: 'admin', project: null }],
    [
      shop.token,
      {
        role: 'project',
        name: `project:${shop.id}`,
        project: { id: shop.id, name: 'shop', env: 'staging', status: 'idle', lastDeployAt: null }
      }
    ],
    ['global-deploy-token', { role: 'global', name: 'global-deploy', project: null }]
  ]
  for (const [token, expected] of cases) {
    const { status, body, text } = await stage.as(token).get('/api/auth/whoami')
    t.equal(status, 200)
    t.strictSame(body, { ...expected, token: null, projects: null })
    t.notMatch(text, token)
  }
})

t.test('a wrong token counts as a failure', async t => {
  const stage = await startServer(t)
  const from = { 'x-forwarded-for': '192.0.2.7' }
  for (let attempt = 0; attempt < 8; attempt++) {
    t.equal((await stage.as('a-wrong-token').get('/api/auth/whoami', from)).status, 401)
  }
  t.equal((await stage.as('a-wrong-token').get('/api/auth/whoami', from)).status, 429)
  t.equal((await stage.as(null).get('/api/auth/whoami')).status, 401, 'without a token')
})

const minuteMs = 60_000

t.test('a token with a second factor opens sessions with a code, and nothing else', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const nobody = stage.as(null)
  const { body } = await stage.client.post('/api/tokens', { name: 'ana', role: 'admin' })
  const { token, record } = body
  t.match(await stage.client.post('/api/auth/second-factor'), { status: 409, body: { code: 'no_named_token' } })

  const session = await signIn(nobody, { token })
  const begun = await nobody.post('/api/auth/second-factor', {}, session.headers)
  t.match(begun, {
    status: 200,
    body: { secret: /^[A-Z2-7]{32}$/, link: /^otpauth:\/\/totp\/svc%20127\.0\.0\.1:ana\?/ }
  })
  const code = () => codeOf(begun.body.secret, Math.floor(clock.now() / 30_000))
  t.equal((await stage.as(token).get('/api/projects')).status, 200, 'before the confirmation')
  const confirmed = await nobody.post('/api/auth/second-factor/confirm', { code: code() }, session.headers)
  t.equal(confirmed.body.recoveryCodes.length, 10)
  t.match(await stage.as(token).get('/api/projects'), { status: 403, body: { code: 'second_factor_required' } })
  t.equal((await nobody.get('/api/projects', { cookie: session.cookie })).status, 200, 'the session goes on')
  t.match((await stage.client.get('/api/tokens')).body.items, [{ secondFactor: true }])

  clock.advance(minuteMs)
  const login = (fields: object) => nobody.post('/api/auth/login', { token, session: true, ...fields })
  t.match(await login({}), { status: 401, body: { code: 'code_required', field: 'code' } })
  t.match(await login({ code: '000000' }), { status: 401, body: { code: 'wrong_code' } })
  const right = code()
  t.match(await login({ code: right }), { status: 200 })
  t.match(await login({ code: right }), { status: 401, body: { code: 'wrong_code' } }, 'it was used')
  t.match(await login({ code: confirmed.body.recoveryCodes[0] }), { status: 200 })

  clock.advance(minuteMs)
  const json = { ...session.headers, 'content-type': 'application/json' }
  const remove = (given: string) =>
    nobody.send('DELETE', '/api/auth/second-factor', { headers: json, body: JSON.stringify({ code: given }) })
  t.match(
    await nobody.send('DELETE', `/api/tokens/${record.id}/second-factor`, { headers: session.headers }),
    { status: 403, body: { code: 'forbidden' } },
    'an admin does not remove the own one without a code'
  )
  t.match(await remove('000000'), { status: 401, body: { code: 'wrong_code' } })
  t.match(await remove(code()), { status: 200 })
  t.match(await stage.client.delete(`/api/tokens/${record.id}/second-factor`), { status: 404 })
  t.equal((await stage.as(token).get('/api/projects')).status, 200)
})

t.test('sessions, tickets and streams from before the second factor end when it is confirmed', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const nobody = stage.as(null)
  const { token } = (await stage.client.post('/api/tokens', { name: 'ana', role: 'operator' })).body
  const [thief, own] = [await signIn(nobody, { token }), await signIn(nobody, { token })]
  const other = await signIn(nobody)
  const { sessions } = stage.server.services.api
  const opened = sessions.find({ cookie: thief.cookie })?.id ?? ''
  const ticket = (await stage.as(token).post('/api/tickets', { purpose: 'download' })).body.ticket

  const asBearer = ['/api/auth/second-factor', '/api/auth/second-factor/confirm']
  for (const path of asBearer) {
    t.match(await stage.as(token).post(path, { code: '1' }), { status: 409, body: { code: 'no_session' } })
  }
  const begun = await nobody.post('/api/auth/second-factor', {}, own.headers)
  const code = codeOf(begun.body.secret, Math.floor(clock.now() / 30_000))
  t.equal((await nobody.post('/api/auth/second-factor/confirm', { code }, own.headers)).status, 200)

  const asks = async (cookie: string) => (await nobody.get('/api/projects', { cookie })).status
  t.equal(await asks(thief.cookie), 401)
  t.equal(sessions.isAlive(opened), false, 'what was opened with it ends, too')
  t.equal(await asks(own.cookie), 200, 'this one has given a code')
  t.equal(await asks(other.cookie), 200, 'that of another token')
  const withTicket = `/api/log-sources/unknown_id/download?ticket=${ticket}`
  t.equal((await nobody.get(withTicket)).status, 401, 'a ticket that the bearer got')
  const { items } = (await stage.client.get('/api/audit?action=second_factor.enrol')).body
  t.match(items, [{ ok: true, detail: /1 other session/ }, { ok: false }, { ok: false }])
})

t.test('what needs a recent proof is refused to an old session, until the token is entered again', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const nobody = stage.as(null)
  const { headers, cookie } = await signIn(nobody)
  const change = () =>
    nobody.send('PUT', '/api/settings', {
      headers: { ...headers, 'content-type': 'application/json' },
      body: '{"audit_days":"500"}'
    })
  const info = async () => (await nobody.get('/api/auth/session', { cookie })).body
  t.equal((await change()).status, 200)
  t.equal(Date.parse((await info()).provenUntil), clock.now() + 15 * minuteMs)
  t.equal((await info()).needsProof, false)
  clock.advance(15 * minuteMs)
  t.equal((await info()).needsProof, true)
  t.match(await change(), { status: 403, body: { code: 'proof_required' } })
  t.match(await nobody.post('/api/tickets', { purpose: 'terminal' }, headers), {
    status: 403,
    body: { code: 'proof_required' }
  })
  const { body: ticket } = await nobody.post('/api/tickets', { purpose: 'download' }, headers)
  const path = `/api/migration/export?ticket=${ticket.ticket}`
  t.match(await nobody.get(path), { status: 403, body: { code: 'proof_required' } })
  t.equal((await nobody.get('/api/projects', { cookie })).status, 200, 'everything else goes on')
  t.equal((await stage.client.put('/api/settings', { audit_days: '501' })).status, 200, 'a bearer token proves itself')

  t.match(await nobody.post('/api/auth/prove', { token: 'wrong-token' }, headers), {
    status: 401,
    body: { code: 'wrong_token' }
  })
  const other = (await stage.client.post('/api/tokens', { name: 'x', role: 'admin' })).body.token
  t.match(await nobody.post('/api/auth/prove', { token: other }, headers), { status: 401 }, 'another token')
  t.match(await stage.client.post('/api/auth/prove', { token: other }), { status: 409, body: { code: 'no_session' } })
  const { ADMIN_TOKEN: token } = stage.environment
  t.match(await nobody.post('/api/auth/prove', { token }, headers), { status: 200, body: { provenUntil: /^20/ } })
  const { items } = (await stage.client.get('/api/audit?action=auth.prove')).body
  t.match(items, [{ ok: true, actor: 'admin' }, { ok: false }, { ok: false }], 'each attempt is in the audit log')
  t.equal((await change()).status, 200)
  await stage.client.put('/api/settings', { proof_minutes: '0' })
  clock.advance(60 * minuteMs)
  t.equal((await change()).status, 200)
  t.equal((await info()).provenUntil, null)
})

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
  const filePath = join(stage.sites, 'app.log')
  writeFileSync(filePath, 'one line\n')
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

t.test('days are the end of a token', async t => {
  const { client } = await startServer(t)
  const daysUntil = (expiresAt: string) => (Date.parse(expiresAt) - Date.now()) / 86_400_000
  const { record } = (await client.post('/api/tokens', { name: 'ci', role: 'deployer', days: 1 })).body
  t.ok(daysUntil(record.expiresAt) > 0.9 && daysUntil(record.expiresAt) <= 1)
  const changed = await client.patch(`/api/tokens/${record.id}`, { days: 30 })
  t.ok(daysUntil(changed.body.record.expiresAt) > 29 && daysUntil(changed.body.record.expiresAt) <= 30)
  const both = { days: 2, expiresAt: record.expiresAt }
  t.match(await client.patch(`/api/tokens/${record.id}`, both), { status: 400, body: { field: 'days' } })
  t.match(await client.post('/api/tokens', { name: 'b', role: 'viewer', days: 0 }), { status: 400 })
})

t.test('a misspelt limit gives no token, key or enrollment without it', async t => {
  const { client } = await startServer(t)
  const given = { name: 'ci', role: 'deployer' }
  for (const more of [{ projects: ['proj_a'] }, { ttl: 1 }, { allowedIPs: ['10.0.0.1'] }])
    t.match(await client.post('/api/tokens', { ...given, ...more }), { status: 400, body: { code: 'invalid_field' } })
  t.match((await client.get('/api/tokens')).body, { items: [] })
  const { id } = (await client.post('/api/tokens', given)).body.record
  t.match(await client.patch(`/api/tokens/${id}`, { projects: ['proj_a'] }), { status: 400 })
  t.match(await client.post(`/api/tokens/${id}/rotate`, { overlap: 60 }), { status: 400 })
  t.match(await client.post('/api/enrollments', { days: 1 }), { status: 400, body: { field: 'days' } })
  t.match(await client.post('/api/signing-keys', { key: 'x', until: '2027-01-01' }), { status: 400 })
})
