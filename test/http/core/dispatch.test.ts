import t from 'tap'
import { belowBase, normaliseBase } from '../../../lib/http/core/dispatch.js'
import { json, jsonBody, publicBody, type Route } from '../../../lib/http/core/route.js'
import { sendRaw, startServer } from '../../support/http-server.js'

const routes: Route[] = [
  {
    method: 'GET',
    path: '/api/things/:id',
    auth: 'public',
    handle: ({ params, query }) => json({ ...params, q: query.get('q') })
  },
  {
    method: 'POST',
    path: '/api/things',
    auth: 'public',
    body: jsonBody,
    handle: async request => json({ got: await request.json() })
  }
]

t.test('does not send a version of an answer again that the client has', async t => {
  let version: string | null = '1'
  const handled: string[] = []
  const route: Route = {
    method: 'GET',
    path: '/api/versioned',
    auth: 'public',
    version: () => version,
    handle: () => {
      handled.push(String(version))
      return { ...json({ version }), text: JSON.stringify({ version }) }
    }
  }
  const { url } = await startServer(t, [route])
  const ask = (etag?: string | null) =>
    fetch(`${url}/api/versioned`, etag ? { headers: { 'if-none-match': etag } } : {})
  const first = await ask()
  const tag = first.headers.get('etag')
  t.match(tag, /^W\/"[^"]+-1"$/)
  const same = await ask(tag)
  t.strictSame(
    [same.status, same.headers.get('etag'), same.headers.get('cache-control'), await same.text()],
    [304, tag, 'no-store', '']
  )
  t.equal((await ask(`"other", ${tag}`)).status, 304)
  t.strictSame(handled, ['1'], 'the handler was called once')
  version = '2'
  const next = await ask(tag)
  t.strictSame([next.status, await next.json()], [200, { version: '2' }])
  t.not(next.headers.get('etag'), tag)
  version = null
  const without = await ask(tag)
  t.strictSame([without.status, without.headers.get('etag')], [200, null])
})

t.test('serves a route to other origins', async t => {
  const { url } = await startServer(t, [
    ...routes,
    {
      method: 'POST',
      path: '/api/open',
      auth: 'public',
      cors: true,
      body: { ...publicBody, maxBytes: 32 },
      handle: async request => json({ got: await request.json() })
    }
  ])
  const preflight = await fetch(`${url}/api/open`, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://page.test',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type'
    }
  })
  t.equal(preflight.status, 204)
  t.match(Object.fromEntries(preflight.headers), {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'OPTIONS, POST',
    'access-control-allow-headers': 'content-type',
    'access-control-max-age': /^\d+$/,
    allow: 'OPTIONS, POST'
  })
  const post = (body: string) =>
    fetch(`${url}/api/open`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  for (const [body, status] of [
    ['[1]', 200],
    ['[1', 400],
    [JSON.stringify('x'.repeat(31)), 413]
  ] as const) {
    const reply = await post(body)
    t.equal(reply.status, status)
    t.equal(reply.headers.get('access-control-allow-origin'), '*', 'a page may read a refusal too')
  }
  t.match(await (await post(JSON.stringify('x'.repeat(31)))).json(), {
    code: 'too_large',
    error: /the maximum for JSON is 32 bytes/
  })

  const other = await fetch(`${url}/api/things`, { method: 'OPTIONS' })
  t.equal(other.status, 405, 'other routes are unchanged')
  t.equal(other.headers.get('access-control-allow-origin'), null)
  t.equal((await fetch(`${url}/api/things/1`)).headers.get('access-control-allow-origin'), null)
})

t.test('handles the base path', async t => {
  const { url, port } = await startServer(t, routes, {
    base: '/a/b',
    fallback: async ({ path }) => json({ page: path })
  })
  t.equal((await fetch(`${url}/api/things/1`)).status, 200)
  for (const path of ['/api/things/1', '/a', '/a/', '/a/bc', '/a/bc/api/things/1', '/']) {
    t.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 404, path)
  }
  const redirect = await fetch(`${url}?x=1`, { redirect: 'manual' })
  t.equal(redirect.status, 308)
  t.equal(redirect.headers.get('location'), '/a/b/?x=1')
  t.same(await (await fetch(`${url}/`)).json(), { page: '/' })
  t.equal((await fetch(url, { method: 'POST' })).status, 404)
})

t.test('answers from a partial table what it can, and lets other requests wait for the whole one', async t => {
  const early: Route = { method: 'GET', path: '/api/early', auth: 'public', handle: () => json({ early: true }) }
  const { server, url, events } = await startServer(t, [early], { isPartial: true })
  const waiting = [
    fetch(`${url}/api/things/1`),
    fetch(`${url}/api/things`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"a":1}' }),
    fetch(`${url}/api/early`, { method: 'DELETE' }),
    fetch(`${url}/page`),
    fetch(`${url}/api/nothing`, { method: 'POST' })
  ]
  t.equal((await fetch(`${url}/api/early`)).status, 200)
  t.same(
    events.map(event => 'path' in event && event.path),
    ['/api/early'],
    'the other requests still wait'
  )
  const page = Buffer.from('the page')
  server.complete({
    routes: [early, ...routes],
    fallback: async ({ path }) =>
      path === '/page' ? { kind: 'bytes', status: 200, body: page, headers: {} } : undefined
  })
  const replies = await Promise.all(waiting)
  t.same(
    replies.map(({ status }) => status),
    [200, 200, 405, 200, 404]
  )
  t.same(await Promise.all(replies.slice(0, 2).map(reply => reply.json())), [{ id: '1', q: null }, { got: { a: 1 } }])
  t.equal((await fetch(`${url}/api/things/2`)).status, 200)
  t.equal((await fetch(`${url}/api/early`)).status, 200)
})

t.test('releases waiting requests if the server closes before the table is complete', async t => {
  const { server, port } = await startServer(t, [], { isPartial: true })
  const reply = sendRaw(port, 'GET /api/things/1 HTTP/1.1\r\nHost: a\r\n\r\n')
  await server.close({ graceMs: 0 })
  t.equal((await reply).status, 0)
})

t.test('normalises every spelling of a base path', async t => {
  for (const text of ['a', '/a', '/a/', 'a/', '//a']) t.equal(normaliseBase(text), '/a', text)
  for (const text of ['', '/', '//']) t.equal(normaliseBase(text), '', text)
  t.equal(normaliseBase('a/b-1/c.d/'), '/a/b-1/c.d')
  for (const text of ['a b', 'é', 'a?b', 'a#', '..', 'a/../b', '.', 'a%20b', 'a"b', '<a>']) {
    t.throws(() => normaliseBase(text), { code: 'invalid_base' }, text)
  }
})

t.test('finds the path below a base', async t => {
  const cases: Array<[base: string, path: string, below: string | undefined]> = [
    ['', '/x', '/x'],
    ['', '/', '/'],
    ['/a', '/a/x', '/x'],
    ['/a', '/a/', '/'],
    ['/a', '/a', ''],
    ['/a', '/ab', undefined],
    ['/a', '/', undefined],
    ['/a/b', '/a/b/c', '/c'],
    ['/a/b', '/a', undefined]
  ]
  for (const [base, path, below] of cases) t.equal(belowBase(base, path), below, `${path} below ${base}`)
})
