import t from 'tap'
import { createServer } from 'node:http'
import { createClient, createConnection } from '../../../www/server/client.js'
import { pauseMs } from '../../../www/server/requests.js'
import type { Session } from '../../../www/state/session.js'
import { listen } from '../../support/on-loopback.js'

t.test('announces each change of the connection once', async t => {
  const connection = createConnection()
  const told: string[] = []
  connection.addEventListener('change', () => told.push(connection.state))
  for (const state of ['open', 'lost', 'lost', 'open'] as const) connection.set(state)
  t.same(told, ['lost', 'open'])
})

t.test('knows how old the answers of a hub are that is cut off, also those that have not changed', async t => {
  let stale: string | null = '12'
  const server = createServer((request, response) => {
    if (stale !== null) response.setHeader('x-svc-stale', stale)
    const isKnown = request.headers['if-none-match'] === 'W/"1"'
    response.writeHead(isKnown ? 304 : 200, { etag: 'W/"1"', 'content-type': 'application/json' })
    response.end(isKnown ? undefined : '{}')
  })
  const connection = createConnection()
  const told: Array<number | null> = []
  connection.addEventListener('stale', () => told.push(connection.staleSeconds))
  connection.addEventListener('change', () => t.fail('pages load again at each change'))
  const base = `http://127.0.0.1:${await listen(t, server)}/`
  const session = { id: 'ses_a', csrf: null, end() {} } as unknown as Session
  const client = createClient({ base, session, connection })
  for (stale of ['12', '12', '17', null, null]) await client.ask('GET', 'api/list')
  t.same(told, [12, 17, null])
})

t.test('pauses double up to a maximum and are randomized', async t => {
  t.same(
    [0, 1, 2, 3].map(attempt => pauseMs(attempt, () => 0.5)),
    [500, 1000, 2000, 4000]
  )
  t.equal(
    pauseMs(20, () => 0.5),
    15_000
  )
  t.equal(
    pauseMs(20, () => 0),
    11_250
  )
})

t.test('repeats requests with their ETag, and answers 304 from memory', async t => {
  let version = 1
  const seen: Array<[string | undefined, number]> = []
  const server = createServer((request, response) => {
    const etag = `W/"${version}"`
    const given = request.headers['if-none-match']
    const status = given === etag ? 304 : 200
    seen.push([given, status])
    response.writeHead(status, { etag, 'content-type': 'application/json', 'x-total-count': '3' })
    response.end(status === 304 ? undefined : JSON.stringify({ version }))
  })
  const session = { id: 'ses_a', csrf: null, end() {} }
  const client = createClient({
    base: `http://127.0.0.1:${await listen(t, server)}/`,
    session: session as unknown as Session,
    connection: createConnection()
  })
  const first = await client.ask('GET', 'api/list')
  t.same(await client.ask('GET', 'api/list'), first)
  t.equal((await client.send('GET', 'api/list')).headers.get('x-total-count'), '3')
  version = 2
  t.match(await client.ask('GET', 'api/list'), { version: 2 })
  session.id = 'ses_b'
  t.match(await client.ask('GET', 'api/list'), { version: 2 }, 'another session knows nothing of it')
  for (let i = 0; i < 10; i++) await client.ask('GET', `api/other/${i}`)
  await client.ask('GET', 'api/list')
  t.same(
    seen.filter((_, i) => i < 5 || i > 14),
    [
      [undefined, 200],
      ['W/"1"', 304],
      ['W/"1"', 304],
      ['W/"1"', 200],
      [undefined, 200],
      [undefined, 200]
    ],
    'the oldest is forgotten'
  )
})

t.test('tells answers of a gateway from answers of the server, whatever their status', async t => {
  let answer = { status: 200, type: 'application/json', body: '{}' }
  const server = createServer((_, response) => {
    response.writeHead(answer.status, { 'content-type': answer.type })
    response.end(answer.body)
  })
  let nowMs = 1000
  const connection = createConnection(() => nowMs)
  t.equal(connection.answeredAtMs, null)
  const session = { token: 'a', end() {} } as unknown as Session
  const client = createClient({
    base: `http://127.0.0.1:${await listen(t, server)}/`,
    session,
    connection
  })
  const cases: Array<[status: number, type: string, state: 'open' | 'lost']> = [
    [200, 'application/json', 'open'],
    [502, 'text/html', 'lost'],
    [503, 'application/json', 'open'],
    [503, 'text/html', 'lost'],
    [504, 'text/plain', 'lost'],
    [500, 'text/html', 'open'],
    [404, 'text/html', 'open']
  ]
  for (const [status, type, state] of cases) {
    answer = { status, type, body: '{}' }
    nowMs++
    const beforeMs = connection.answeredAtMs
    await client.send('GET', 'api/x').catch(() => {})
    t.equal(connection.state, state, `${status} ${type}`)
    t.equal(connection.answeredAtMs, state === 'open' ? nowMs : beforeMs, 'the time of the last answer')
  }
})

t.test('asks for the token again and repeats the request, and a wrong code does not end the session', async t => {
  let isProven = false
  let code = 'proof_required'
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    const isSession = request.url === '/api/auth/session'
    response.writeHead(isProven || isSession ? 200 : code === 'proof_required' ? 403 : 401, {
      'content-type': 'application/json'
    })
    response.end(
      JSON.stringify(isSession ? { needsProof: !isProven } : isProven ? { done: true } : { error: 'No', code })
    )
  })
  const ends: string[] = []
  const session = { id: 'ses_a', csrf: 'one', end: (reason: string) => ends.push(reason) } as unknown as Session
  let answer = false
  let asked = 0
  const client = createClient({
    base: `http://127.0.0.1:${await listen(t, server)}/`,
    session,
    connection: createConnection(),
    prove: async () => {
      asked++
      return (isProven = answer)
    }
  })
  await t.rejects(client.ask('PUT', 'api/x', { body: {} }), { code: 'proof_required', message: 'No' })
  await t.rejects(client.ensureProven(), { code: 'proof_required' })
  t.same([asked, seen], [2, ['PUT /api/x', 'GET /api/auth/session']], 'nothing is repeated after a refusal')
  answer = true
  t.same(await client.ask('PUT', 'api/x', { body: {} }), { done: true })
  t.same(seen.slice(2), ['PUT /api/x', 'PUT /api/x'])
  await client.ensureProven()
  t.equal(asked, 3, 'nobody is asked without need')
  isProven = false
  for (code of ['wrong_code', 'code_required', 'wrong_token']) await t.rejects(client.ask('POST', 'api/y'), { code })
  t.same(ends, [])
  code = 'token_revoked'
  await t.rejects(client.ask('POST', 'api/y'), { code })
  t.same(ends, ['expired'])
})

t.test('sends the header of the session with changes, also after another tab signed in again', async t => {
  let csrf = 'one'
  const seen: string[] = []
  const server = createServer((request, response) => {
    const { method, url, headers } = request
    seen.push(
      `${method} ${url} ${headers['x-svc-csrf'] ?? '-'} ${headers['x-svc-panel']} ${headers.authorization ?? '-'}`
    )
    const isWrong = method !== 'GET' && headers['x-svc-csrf'] !== csrf
    response.writeHead(isWrong ? 403 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isWrong ? { error: 'No', code: 'wrong_csrf' } : { csrf }))
  })
  const session = { id: 'ses_a', csrf: null, end() {} }
  const client = createClient({
    base: `http://127.0.0.1:${await listen(t, server)}/`,
    session: session as unknown as Session,
    connection: createConnection()
  })
  await client.ask('POST', 'a', { body: {} })
  await client.ask('PUT', 'b', { body: {} })
  t.same(seen.splice(0), ['GET /api/auth/session - 1 -', 'POST /a one 1 -', 'PUT /b one 1 -'])
  csrf = 'two'
  await client.ask('DELETE', 'c')
  t.same(seen.splice(0), ['DELETE /c one 1 -', 'GET /api/auth/session - 1 -', 'DELETE /c two 1 -'])
  t.same(await client.changeHeaders(), { 'x-svc-panel': '1', 'x-svc-csrf': 'two' })
  session.id = null as never
  await client.ask('POST', 'api/auth/login', { body: {} }).catch(() => {})
  t.same(seen, ['POST /api/auth/login - 1 -', 'POST /api/auth/login - 1 -'], 'nobody is signed in')
})
