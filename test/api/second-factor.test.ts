import t from 'tap'
import { codeOf } from '../../lib/auth/totp.js'
import { setClock } from '../support/clock.js'
import { signIn } from '../support/session.js'
import { startServer } from '../support/server.js'

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
  const ended = stage.server.services.api.auth.sessions.find({ cookie: thief.cookie })?.ended()
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
  t.equal(ended?.aborted, true, 'what was opened with it ends, too')
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
