import { connect } from 'node:net'
import { join } from 'node:path'
import { writeFileSync } from 'node:fs'
import t from 'tap'
import { startServer, adminToken } from '../support/server.js'
import { eventsOf } from '../support/client.js'
import { signIn } from '../support/session.js'
import { noPty, openTerminal } from '../support/web-terminal.js'
import { zipOf } from '../support/zip.js'
import { serve } from '../../lib/server/serve.js'

t.test('a login with a session: cookie, header, list and logout', async t => {
  const stage = await startServer(t, { base: '/deploy' })
  const nobody = stage.as(null)
  const plain = await nobody.post('/api/auth/login', { token: adminToken })
  t.equal(plain.headers['set-cookie'], undefined, 'without `session` no cookie')
  t.notOk('session' in plain.body)
  const wrong = await nobody.post('/api/auth/login', { token: 'wrong', session: true })
  t.match(wrong, { status: 401, body: { code: 'wrong_token' } })
  t.equal(wrong.headers['set-cookie'], undefined)
  t.match(await nobody.post('/api/auth/login', { token: adminToken, session: 'yes' }), {
    status: 400,
    body: { field: 'session' }
  })

  const one = await signIn(nobody)
  t.match(one.setCookie, /; Path=\/deploy\/; Max-Age=604800; HttpOnly; SameSite=Strict$/)
  const { cookie } = one
  t.match((await nobody.get('/api/auth/session', { cookie })).body, {
    role: 'admin',
    name: 'admin',
    id: one.id,
    csrf: one.csrf,
    expiresAt: one.expiresAt
  })
  t.match((await stage.client.get('/api/auth/session')).body, {
    role: 'admin',
    name: 'admin',
    token: null,
    projects: null,
    id: null,
    csrf: null,
    expiresAt: null
  })
  t.equal((await nobody.get('/api/auth/session')).status, 401)

  const other = await signIn(nobody, { remember: false, headers: { 'user-agent': 'Other/1' } })
  const { body } = await nobody.get('/api/sessions', { cookie })
  t.match(
    body.sessions.find((each: { id: string }) => each.id === one.id),
    { current: true, remember: true, ip: '127.0.0.1' }
  )
  t.match(
    body.sessions.find((each: { id: string }) => each.id === other.id),
    { current: false, remember: false, userAgent: 'Other/1' }
  )
  t.same(Object.keys(body.sessions[0]).sort(), [
    'createdAt',
    'current',
    'expiresAt',
    'id',
    'ip',
    'lastUsedAt',
    'provenAt',
    'remember',
    'tokenId',
    'tokenName',
    'userAgent'
  ])

  t.match(await nobody.send('DELETE', `/api/sessions/${other.id}`, { headers: { cookie } }), {
    status: 403,
    body: { code: 'wrong_csrf' }
  })
  t.equal((await nobody.send('DELETE', `/api/sessions/${other.id}`, { headers: one.headers })).status, 200)
  t.equal((await nobody.get('/api/projects', { cookie: other.cookie })).status, 401)
  t.equal((await nobody.send('DELETE', `/api/sessions/${other.id}`, { headers: one.headers })).status, 404)

  const out = await nobody.send('DELETE', '/api/auth/session', { headers: one.headers })
  t.equal(out.status, 200)
  t.match(out.headers['set-cookie']?.[0], /=; Path=\/deploy\/; Max-Age=0;/)
  t.match(await nobody.get('/api/projects', { cookie }), { status: 401, body: { code: 'unauthorized' } })
  t.equal((await stage.client.delete('/api/auth/session')).status, 200, 'a bearer token has no session to end')
  const { body: audit } = await stage.client.get('/api/audit')
  const actions = audit.items.map(({ action, target }: { action: string; target: string }) => [action, target])
  t.ok(actions.some(([action, target]: string[]) => action === 'auth.logout' && target === one.id))
  t.ok(actions.some(([action, target]: string[]) => action === 'session.revoke' && target === other.id))
  for (const secret of [one.csrf, cookie.split('=')[1] as string]) t.notMatch(JSON.stringify(audit), secret)
})

t.test('a session survives a restart, and can upload without the token of the project', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const { headers, cookie } = await signIn(stage.as(null))
  await stage.restart()
  const form = async (): Promise<Parameters<typeof stage.client.upload>[0]> => [
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
  ]
  t.match(await stage.as(null).upload(await form(), { cookie }), { status: 403, body: { code: 'wrong_csrf' } })
  t.equal((await stage.client.upload(await form())).status, 401, 'the admin token is still refused')
  const reply = await stage.as(null).upload(await form(), headers)
  t.match(eventsOf(reply).at(-1), { event: 'status', status: 'success' })
  const { deployId } = eventsOf(reply).at(-1)
  t.match((await stage.client.get(`/api/logs/${deployId}`)).body, { projectId: shop.id, status: 'success' })
  t.equal((await stage.as(null).get(`/api/logs/${deployId}/output`, { cookie })).status, 200, 'a download')
  const unknown = await stage.as(null).upload(
    [
      ['projectId', 'proj_unknown'],
      ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
    ],
    headers
  )
  t.equal(unknown.status, 404)
})

t.test('the cookie is secure if a trusted proxy reports a secure connection', async t => {
  const stage = await startServer(t, { settings: { trusted_proxies: '127.0.0.1' } })
  const behind = { 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'https' }
  const { setCookie, cookie } = await signIn(stage.as(null), { headers: behind })
  t.match(setCookie, /^__Secure-svc_session_.*; Secure$/)
  t.equal((await stage.as(null).get('/api/projects', { cookie, ...behind })).status, 200)
  await stage.client.put('/api/settings', { trusted_proxies: '192.0.2.250' })
  t.notMatch((await signIn(stage.as(null), { headers: behind })).setCookie, /Secure/, 'other addresses are not trusted')
})

t.test('the cookie is secure if the public address is, also behind a proxy that does not say so', async t => {
  const publicUrl = 'https://deploy.example.org'
  const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: publicUrl } })
  const cookieOf = async (headers: Record<string, string>): Promise<string> =>
    (await signIn(stage.as(null), { headers })).setCookie
  for (const headers of [
    { 'x-forwarded-for': '192.0.2.7' },
    { 'x-real-ip': '192.0.2.7' },
    { 'x-forwarded-host': 'deploy.example.org' },
    { host: 'deploy.example.org' },
    { host: 'DEPLOY.example.org' }
  ]) {
    t.match(await cookieOf(headers as never), /^__Secure-.*; Secure$/, JSON.stringify(headers))
  }
  const direct = [{}, { host: 'localhost:5431' }, { 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'http' }]
  for (const headers of direct) t.notMatch(await cookieOf(headers as never), /Secure/, JSON.stringify(headers))
})

t.test('two servers on one host have different cookies', async t => {
  const one = await startServer(t)
  const directory = join(one.sites, 'other')
  const { locateHome } = await import('../../lib/base/config/home.js')
  const other = await serve({
    home: locateHome({ SVC_HOME: directory }, one.sites),
    port: 0,
    cwd: one.sites,
    environment: one.environment,
    report: { info() {}, warn() {} }
  })
  t.teardown(() => other.stop({ wait: false }))
  const { createClient } = await import('../support/client.js')
  const atOther = createClient(() => other.url, null)
  const [first, second] = [await signIn(one.as(null)), await signIn(atOther)]
  t.not(first.cookie.split('=')[0], second.cookie.split('=')[0])
  const both = { cookie: `${first.cookie}; ${second.cookie}` }
  t.equal((await one.as(null).get('/api/auth/session', both)).body.id, first.id)
  t.equal((await atOther.get('/api/auth/session', both)).body.id, second.id)
  t.equal((await atOther.get('/api/auth/session', { cookie: first.cookie })).status, 401)
})

t.test('a stream of a revoked session ends immediately', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { postDeployScript: 'sleep 600' })
  const { headers, cookie, id } = await signIn(stage.as(null))
  const upload = stage.as(shop.token).open('POST', '/api/deploy/upload', await formFor(shop.id))
  const deployId = (await upload).headers['x-svc-deploy-id'] as string
  const stream = await stage.as(null).open('GET', `/api/logs/${deployId}/stream`, { headers: { cookie } })
  stream.resume()
  const broken = new Promise(resolve => stream.once('close', resolve).on('error', () => {}))
  t.equal((await stage.as(null).send('DELETE', `/api/sessions/${id}`, { headers })).status, 200)
  await broken
  t.equal(stream.complete, false, 'cut off, not ended')
  await stage.client.post(`/api/deployments/${deployId}/cancel`)
  ;(await upload).resume()
})

t.test('what was opened with a ticket ends with the session that asked for it', { skip: noPty }, async t => {
  const stage = await startServer(t)
  const anonymous = stage.as(null)
  const ticketOf = async ({ headers }: { headers: Record<string, string> }, purpose: string): Promise<string> =>
    (await anonymous.post('/api/tickets', { purpose }, headers)).body.ticket
  const [one, other] = [await signIn(anonymous), await signIn(anonymous)]
  const open = async (session: typeof one) =>
    openTerminal({ url: stage.url, client: anonymous }, { ticket: await ticketOf(session, 'terminal') })
  const [ended, kept] = [await open(one), await open(other)]
  const unused = await ticketOf(one, 'download')
  t.equal((await anonymous.send('DELETE', '/api/auth/session', { headers: one.headers })).status, 200)
  await ended.closed()
  t.equal((await anonymous.get(`/api/logs/dep_unknown/output?ticket=${unused}`)).status, 401)
  kept.type('echo still-here\n')
  await kept.sees(/still-here/)
})

async function formFor(projectId: string) {
  const { formOf } = await import('../support/client.js')
  const { contentType, body } = formOf([
    ['projectId', projectId],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
  ])
  return { headers: { 'content-type': contentType, accept: 'application/x-ndjson' }, body }
}

/** The status line of a WebSocket's opening handshake. */
function shake(url: string, headers: Record<string, string>): Promise<string> {
  const { port, host } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => {
      const lines = Object.entries({
        host,
        upgrade: 'websocket',
        connection: 'Upgrade',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        ...headers
      }).map(([name, value]) => `${name}: ${value}`)
      socket.write(`GET /api/terminal/ws?cols=80&rows=24 HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    })
    socket.once('data', chunk => {
      resolve(chunk.toString('latin1').split('\r\n')[0] as string)
      socket.destroy()
    })
    socket.once('error', reject)
  })
}

t.test('a page of another origin cannot open a terminal with the cookie', async t => {
  const stage = await startServer(t)
  const { cookie } = await signIn(stage.as(null))
  const { origin, port } = new URL(stage.url)
  t.match(await shake(stage.url, { cookie, origin: 'https://evil.example' }), ' 403 ')
  t.match(
    await shake(stage.url, { cookie, origin: `http://127.0.0.1:${Number(port) + 1}` }),
    ' 403 ',
    'another port is the same site'
  )
  t.match(await shake(stage.url, { cookie, origin, 'sec-fetch-site': 'same-site' }), ' 403 ')
  t.match(await shake(stage.url, { origin }), ' 401 ')
  t.match(await shake(stage.url, { cookie, origin }), / (101|501) /)
})

t.test('a backup contains no sessions, and a token in the file ends them', async t => {
  const stage = await startServer(t)
  const { cookie } = await signIn(stage.as(null))
  const { listOthers } = await import('../../lib/carry/backup/format.js')
  const { files } = await listOthers(stage.home.directory)
  t.ok(files.some(({ path }) => path === 'config.json') || files.length === 0)
  t.notOk(files.some(({ path }) => path.startsWith('session.key')))
  t.equal((await stage.as(null).get('/api/projects', { cookie })).status, 200)
  writeFileSync(stage.home.configFile, JSON.stringify({ adminToken: 'a-token-of-the-operator' }), { mode: 0o600 })
  t.equal((await stage.as(null).get('/api/projects', { cookie })).status, 401)
  t.same((await stage.as('a-token-of-the-operator').get('/api/sessions')).body.sessions, [])
})
