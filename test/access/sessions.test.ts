import t, { type Test } from 'tap'
import { Sessions, type SessionStart, csrfOf, digestOf, instanceName, tokenMarkOf } from '../../lib/access/sessions.js'
import { openSessionKey } from '../../lib/access/session-key.js'
import { randomIds } from '../../lib/base/digests.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { listSessions } from '../../lib/core/store/tables/access.js'
import { setClock } from '../support/clock.js'
import { until } from '../support/until.js'

const hourMs = 60 * 60_000
const actor = { name: 'admin', ip: '192.0.2.1' }

async function stageOf(t: Test) {
  const directory = t.testdir()
  const clock = setClock()
  const store = await openStore({ directory, clock })
  t.teardown(() => store.close())
  const events: AuditEvent[] = []
  const state = { token: 'the-admin-token', digests: new Map<string, string[]>() }
  const make = (base = '') =>
    new Sessions({
      store,
      clock,
      ids: randomIds,
      key: openSessionKey({ directory }),
      admin: { current: () => state.token },
      named: { validDigests: id => state.digests.get(id) ?? [] },
      base,
      audit: { within: (_, event) => void events.push(event) }
    })
  const sessions = make()
  const begin = async (remember = true, of = sessions, token: SessionStart['token'] = null) => {
    const begun = await of.begin(
      { headers: { 'user-agent': 'Browser\u202e 1' }, isSecure: false, actor },
      { remember, token, hasCode: false }
    )
    return { ...begun, headers: { cookie: begun.cookie.slice(0, begun.cookie.indexOf(';')) } }
  }
  return { directory, clock, store, events, state, make, sessions, begin }
}

t.test('finds a session only by its cookie', async t => {
  const { sessions, begin, store, events, make } = await stageOf(t)
  t.equal(sessions.find({ cookie: 'svc_session=x' }), null, 'before the first session')
  const one = await begin()
  t.match(sessions.find(one.headers), { id: one.id, expiresAt: one.expiresAt })
  t.equal(sessions.find(one.headers)?.csrf(), one.csrf)
  const [name, secret] = one.headers.cookie.split('=') as [string, string]
  t.match(name, /^svc_session_[0-9a-f]{8}$/)
  t.match(one.cookie, /; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/)
  for (const cookie of [
    `${name}=${secret.slice(1)}`,
    `${name}=${'A'.repeat(43)}`,
    `svc_session=${secret}`,
    `${name}=`,
    name
  ]) {
    t.equal(sessions.find({ cookie }), null, cookie.slice(0, 30))
  }
  t.match(
    sessions.find({ cookie: `${name}=${'A'.repeat(43)}; ${one.headers.cookie}` }),
    { id: one.id },
    'a cookie set by somebody else is ignored'
  )
  t.match(make().find(one.headers), { id: one.id }, 'a restart changes nothing')
  const kept = JSON.stringify(store.all('SELECT * FROM sessions'))
  t.notMatch(kept, secret, 'only the digest is stored')
  t.notMatch(kept, 'the-admin-token')
  t.notMatch(JSON.stringify(events), secret)
  t.match(events, [
    { action: 'auth.login', actor: { name: 'admin', ip: '192.0.2.1' }, target: one.id, detail: 'session' }
  ])
  t.match(sessions.list(), [{ id: one.id, ip: '192.0.2.1', userAgent: 'Browser\\u202e 1', remember: true }])
  t.notOk('digest' in (sessions.list()[0] as object) || 'tokenMark' in (sessions.list()[0] as object))
})

t.test('limits the cookie to the prefix and, over TLS, to TLS', async t => {
  const { make } = await stageOf(t)
  const sessions = make('/a')
  const begun = await sessions.begin(
    { headers: {}, isSecure: true, actor },
    { remember: false, token: null, hasCode: false }
  )
  t.match(
    begun.cookie,
    /^__Secure-svc_session_[0-9a-f]{8}=[\w-]{43}; Path=\/a\/; HttpOnly; SameSite=Strict; Secure$/,
    'it ends with the browser'
  )
  t.match(sessions.find({ cookie: begun.cookie.slice(0, begun.cookie.indexOf(';')) }), { id: begun.id })
  t.match(sessions.removal(true), /=; Path=\/a\/; Max-Age=0;/)
})

t.test('ends sessions without use and at their maximum lifetime', async t => {
  const { clock, sessions, begin, store } = await stageOf(t)
  const [idle, passing, remembered] = [await begin(), await begin(false), await begin()]
  clock.advance(12 * hourMs - 1)
  t.ok(sessions.find(passing.headers))
  t.ok(sessions.find(remembered.headers))
  clock.advance(1)
  t.equal(sessions.find(idle.headers), null, '12 hours without use')
  clock.advance(6 * hourMs)
  t.ok(sessions.find(remembered.headers))
  t.ok(sessions.find(passing.headers))
  clock.advance(6 * hourMs - 1)
  t.ok(sessions.find(passing.headers))
  clock.advance(1)
  t.equal(sessions.find(passing.headers), null, '24 hours, even if it is used')
  for (let days = 1; days < 7; days++) {
    t.ok(sessions.find(remembered.headers), `day ${days}`)
    clock.advance(11 * hourMs)
    t.ok(sessions.find(remembered.headers))
    clock.advance(11 * hourMs)
    t.ok(sessions.find(remembered.headers))
    clock.advance(2 * hourMs)
  }
  t.equal(sessions.find(remembered.headers), null, '7 days, even if it is used')
  await begin()
  t.equal(listSessions(store).length, 1, 'ended sessions are removed')
})

t.test('writes the last use at most once a minute', async t => {
  const { clock, sessions, begin, store } = await stageOf(t)
  const { headers } = await begin()
  const before = store.sequence()
  for (let n = 0; n < 50; n++) sessions.find(headers)
  clock.advance(59_999)
  sessions.find(headers)
  t.equal(store.sequence(), before)
  clock.advance(1)
  for (let n = 0; n < 50; n++) sessions.find(headers)
  await until(() => store.sequence() > before)
  await store.write(() => {})
  t.equal(store.sequence(), before + 1)
  t.equal(sessions.list()[0]?.lastUsedAt, new Date(clock.now()).toISOString())
})

t.test('rejects a session from the far future', async t => {
  const { clock, sessions, begin } = await stageOf(t)
  const { headers } = await begin()
  clock.advance(-hourMs)
  t.ok(sessions.find(headers), 'a clock set back a little')
  clock.advance(-30 * 24 * hourMs)
  t.equal(sessions.find(headers), null)
})

t.test('a new admin token ends every session except the one that changed it', async t => {
  const { sessions, begin, state, make, store } = await stageOf(t)
  const [own, other] = [await begin(), await begin()]
  await sessions.withNewToken(own.headers, async () => {
    state.token = 'the-second-token'
    t.ok(sessions.find(own.headers) && sessions.isAlive(own.id), 'even during the change')
    t.equal(sessions.find(other.headers), null)
  })
  t.match(sessions.find(own.headers), { id: own.id })
  t.equal(sessions.find(own.headers)?.csrf(), own.csrf)
  t.same(
    [own, other].map(({ id }) => sessions.isAlive(id)),
    [true, false],
    'streams of other sessions end'
  )
  t.equal(listSessions(store).length, 1)
  state.token = 'a-token-written-into-the-file'
  t.equal(sessions.find(own.headers), null)
  t.equal(make().find(own.headers), null)
  t.same(make().list(), [])
  const next = await begin()
  await sessions.withNewToken({}, async () => void (state.token = 'reset'))
  t.equal(sessions.find(next.headers), null)
  t.same(listSessions(store), [])
})

t.test('a failed change of the token ends no session', async t => {
  const { sessions, begin } = await stageOf(t)
  const [own, other] = [await begin(), await begin()]
  await t.rejects(
    sessions.withNewToken(own.headers, async () => {
      throw new Error('full')
    }),
    { message: 'full' }
  )
  t.ok(sessions.find(own.headers))
  t.ok(sessions.find(other.headers))
})

t.test('ends sessions by signing out and revoking', async t => {
  const { sessions, begin, events } = await stageOf(t)
  const [one, other] = [await begin(), await begin()]
  await sessions.end(one.id, { actor, own: true })
  t.equal(sessions.isAlive(one.id), false)
  t.equal(sessions.find(one.headers), null)
  await sessions.end(other.id, { actor, own: false })
  await t.rejects(sessions.end(other.id, { actor, own: false }), { message: /ession/ })
  t.match(events.slice(2), [
    { action: 'auth.logout', target: one.id },
    { action: 'session.revoke', target: other.id }
  ])
})

t.test('a second login replaces the session of the browser', async t => {
  const { sessions, begin } = await stageOf(t)
  const one = await begin()
  await sessions.begin(
    { headers: one.headers, isSecure: false, actor },
    { remember: true, token: null, hasCode: false }
  )
  t.equal(sessions.find(one.headers), null)
  t.equal(sessions.list().length, 1)
})

t.test('ends the least recently used session above 100', async t => {
  const { clock, sessions, begin } = await stageOf(t)
  const first = await begin()
  const second = await begin()
  for (let n = 0; n < 98; n++) {
    clock.advance(1000)
    await begin()
  }
  clock.advance(60_000)
  t.ok(sessions.find(first.headers))
  await until(() => sessions.list()[0]?.id === first.id)
  await begin()
  t.ok(sessions.find(first.headers))
  t.equal(sessions.find(second.headers), null)
  t.equal(sessions.list().length, 100)
})

t.test('ignores sessions of another key and removes them at the first login', async t => {
  const { store, begin, clock, state } = await stageOf(t)
  const { headers } = await begin()
  const elsewhere = new Sessions({
    store,
    clock,
    ids: randomIds,
    key: openSessionKey({ directory: t.testdir({ other: {} }) }),
    admin: { current: () => state.token },
    named: { validDigests: () => [] },
    base: '',
    audit: { within() {} }
  })
  t.equal(elsewhere.find(headers), null)
  t.same(elsewhere.list(), [])
  const mine = await begin(true, elsewhere)
  t.equal(listSessions(store).length, 1)
  t.ok(elsewhere.find(mine.headers))
})

t.test('a session of a named token is valid as long as the secret with which it began', async t => {
  const { sessions, begin, state } = await stageOf(t)
  state.digests.set('tok_a', ['new', 'old'])
  const admin = await begin()
  const old = await begin(true, sessions, { id: 'tok_a', digest: 'old' })
  const fresh = await begin(true, sessions, { id: 'tok_a', digest: 'new' })
  t.match(sessions.find(old.headers), { tokenId: 'tok_a' })
  t.match(sessions.find(admin.headers), { tokenId: null })

  state.digests.set('tok_a', ['new'])
  t.equal(sessions.find(old.headers), null, 'the earlier secret has ended')
  t.ok(sessions.find(fresh.headers))
  await sessions.endOf('tok_a')
  t.equal(sessions.find(fresh.headers), null)
  t.ok(sessions.find(admin.headers), 'sessions of other tokens go on')

  state.token = 'another'
  t.equal(sessions.find(admin.headers), null)
})

t.test('a new admin token does not end the sessions of named ones', async t => {
  const { sessions, begin, state } = await stageOf(t)
  state.digests.set('tok_a', ['new'])
  const own = await begin(true, sessions, { id: 'tok_a', digest: 'new' })
  const admin = await begin()
  await sessions.withNewToken(own.headers, async () => void (state.token = 'another'))
  t.ok(sessions.find(own.headers))
  t.equal(sessions.find(admin.headers), null)
})

t.test('digests depend on the key and on the value', async t => {
  const [a, b] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const digests = [digestOf(a, 'x'), digestOf(a, 'y'), digestOf(b, 'x'), tokenMarkOf(a, 'x'), csrfOf('x'), csrfOf('y')]
  t.equal(new Set(digests).size, digests.length)
  t.match(instanceName(a), /^[0-9a-f]{8}$/)
  t.not(instanceName(a), instanceName(b))
})
