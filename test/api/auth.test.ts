import { writeFileSync } from 'node:fs'
import t from 'tap'
import { setClock } from '../support/clock.js'
import { configOf, startServer } from '../support/server.js'

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

  t.test('another token does not: 401', async t => {
    const { status, body } = await anonymous.post('/api/auth/login', { token: 'wrong' }, from('192.0.2.1'))
    t.equal(status, 401)
    t.match(body, { success: false, message: String, error: String, code: 'wrong_token' })
  })

  t.test('what is no token is a 400 that names the field', async t => {
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

  t.test('8 failures, login and token change together, lock the client', async t => {
    for (let i = 0; i < 4; i++) t.equal((await login('wrong', '192.0.2.1')).status, 401)
    for (let i = 0; i < 4; i++) t.equal((await change('wrong', '192.0.2.1')).status, 401)
    for (const reply of [await login(token, '192.0.2.1'), await change(token, '192.0.2.1')]) {
      t.equal(reply.status, 429)
      t.equal(reply.headers['retry-after'], '300')
      t.match(reply.body, { success: false, code: 'locked_out' })
    }
  })

  t.test('another client is not locked, the first is free after 5 minutes', async t => {
    t.equal((await login(token, '192.0.2.2')).status, 200)
    t.equal((await stage.as(null).post('/api/auth/login', { token }, { 'x-real-ip': '192.0.2.1' })).status, 429)
    clock.advance(5 * 60_000)
    t.equal((await login(token, '192.0.2.1')).status, 200)
  })

  t.test('a client cannot escape by inventing the first entry for ever', async t => {
    const statuses = new Set<number>()
    for (let i = 0; i < 41; i++) statuses.add((await login('wrong', `10.9.0.${i}, 198.51.100.7`)).status)
    t.same([...statuses], [401, 429])
    t.equal((await login(token, '10.9.1.1, 198.51.100.7')).status, 429)
  })
})

t.test('token change', async t => {
  const stage = await startServer(t, { environment: { ADMIN_TOKEN: '' } })
  const first = stage.server.adminToken.current()
  t.equal(configOf(stage.home).adminToken, first)
  const change = (body: unknown) => stage.client.post('/api/settings/token', body)

  t.test('needs the old one, and at least 8 characters', async t => {
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

  t.test('the new one is valid at once, the old one no more', async t => {
    const { status, body } = await change({ oldToken: first, newToken: 'eight888' })
    t.equal(status, 200)
    t.match(body, { success: true, message: String })
    t.equal((await stage.client.get('/api/projects')).status, 401)
    t.equal((await stage.as('eight888').get('/api/projects')).status, 200)
    t.equal(configOf(stage.home).adminToken, 'eight888')
  })

  t.test('a reset in the file is valid at once, too', async t => {
    writeFileSync(stage.home.configFile, JSON.stringify({ ...configOf(stage.home), adminToken: 'reset-by-hand' }))
    t.equal((await stage.as('eight888').get('/api/projects')).status, 401)
    t.equal((await stage.as('reset-by-hand').get('/api/projects')).status, 200)
  })

  t.test('and after a restart', async t => {
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
  t.equal((await output(body.ticket)).status, 404, 'let in; there is no such deployment')
  t.equal((await output(body.ticket)).status, 401, 'once')

  const terminal = await client.post('/api/tickets', { purpose: 'terminal' })
  t.equal((await output(terminal.body.ticket)).status, 401, 'for its purpose only')
  const late = await client.post('/api/tickets', { purpose: 'download' })
  clock.advance(30_000)
  t.equal((await output(late.body.ticket)).status, 401, 'for 30 seconds')
  const refused = await client.post('/api/tickets', { purpose: 'anything' })
  t.equal(refused.status, 400)
  t.match(refused.body, { field: 'purpose' })
})
