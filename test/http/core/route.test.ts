import t from 'tap'
import { createRouter, json, jsonBody, type Method, publicBody, type Route } from '../../../lib/http/core/route.js'

t.test('creates a JSON reply with 200 and no headers by default', async t => {
  t.strictSame(json({ a: 1 }), { kind: 'json', status: 200, body: { a: 1 } })
  t.strictSame(json([], 201, { location: '/a' }), { kind: 'json', status: 201, body: [], headers: { location: '/a' } })
})

t.test('limits a body from anybody more than one from a known client', async t => {
  t.ok(publicBody.maxBytes < jsonBody.maxBytes)
  t.ok(publicBody.totalMs < jsonBody.totalMs)
})

function table(...rows: string[]): Route[] {
  return rows.map(row => {
    const [method, path] = row.split(' ') as [Method, string]
    return { method, path, auth: 'public', handle: () => json({}) }
  })
}

const router = createRouter(
  table(
    'GET /',
    'GET /api/projects',
    'POST /api/projects',
    'POST /api/projects/bulk',
    'GET /api/projects/:id',
    'PUT /api/projects/:id',
    'GET /api/projects/:id/files',
    'GET /api/:kind/:id/files',
    'GET /files/*path',
    'GET /files/index',
    'DELETE /api/a/:x/:y'
  )
)

const cases: Array<[method: string, path: string, expected: string]> = [
  ['GET', '/', 'GET / {}'],
  ['GET', '/api/projects', 'GET /api/projects {}'],
  ['HEAD', '/api/projects', 'GET /api/projects {}'],
  ['POST', '/api/projects', 'POST /api/projects {}'],
  ['GET', '/api/%70rojects', 'GET /api/projects {}'],
  ['GET', '/api/projects/7', 'GET /api/projects/:id {"id":"7"}'],
  ['GET', '/api/projects/a%2Fb%3F%C3%A9', 'GET /api/projects/:id {"id":"a/b?é"}'],
  ['GET', '/api/projects/a+b', 'GET /api/projects/:id {"id":"a+b"}'],
  ['GET', '/api/projects/.hidden', 'GET /api/projects/:id {"id":".hidden"}'],
  ['POST', '/api/projects/bulk', 'POST /api/projects/bulk {}'],
  ['GET', '/api/projects/bulk', 'GET /api/projects/:id {"id":"bulk"}'],
  ['GET', '/api/projects/7/files', 'GET /api/projects/:id/files {"id":"7"}'],
  ['GET', '/api/logs/7/files', 'GET /api/:kind/:id/files {"kind":"logs","id":"7"}'],
  ['GET', '/files/a/b%20c/', 'GET /files/*path {"path":"a/b c/"}'],
  ['GET', '/files/', 'GET /files/*path {"path":""}'],
  ['GET', '/files/index', 'GET /files/index {}'],
  ['GET', '/files/index/a', 'GET /files/*path {"path":"index/a"}'],
  ['DELETE', '/api/projects', '405 GET, HEAD, POST'],
  ['DELETE', '/api/projects/bulk', '405 GET, HEAD, POST, PUT'],
  ['OPTIONS', '/api/a/1/2', '405 DELETE'],
  ['GET', '/api/a/1/2', '405 DELETE'],
  ['HEAD', '/api/a/1/2', '405 DELETE'],
  ['GET', '/files', '404'],
  ['GET', '/api', '404'],
  ['GET', '/api/projects/', '404'],
  ['GET', '/api/projects//files', '404'],
  ['GET', '/API/projects', '404'],
  ['GET', '//', '404'],
  ['GET', '/api/projects/7/__proto__', '404'],
  ['GET', '/constructor', '404'],
  ['GET', '/api/%', '400 invalid_path'],
  ['GET', '/api/projects/%c3', '400 invalid_path'],
  ['GET', '/api/./projects', '400 invalid_path'],
  ['GET', '/api/projects/..', '400 invalid_path'],
  ['GET', '/files/%2e%2e/x', '400 invalid_path'],
  ['GET', '/files/a%00', '400 invalid_path']
]

for (const [method, path, expected] of cases) {
  t.test(`${method} ${path}`, async t => {
    t.equal(outcome(method, path), expected)
  })
}

function outcome(method: string, path: string): string {
  try {
    const match = router.match(method, path)
    if (match.outcome === 'route') return `${match.route.method} ${match.route.path} ${JSON.stringify(match.params)}`
    return match.outcome === 'method' ? `405 ${match.allow}` : '404'
  } catch (error) {
    return `400 ${(error as { code: string }).code}`
  }
}

t.test('tells OPTIONS which methods other origins may use', async t => {
  const open = (row: string): Route[] => table(row).map(route => ({ ...route, cors: true }))
  const router = createRouter([
    ...open('GET /open'),
    ...open('POST /open'),
    ...table('PUT /open', 'GET /closed'),
    ...open('GET /a/:x')
  ])
  t.same(router.match('OPTIONS', '/open'), {
    outcome: 'method',
    allow: 'GET, HEAD, OPTIONS, POST, PUT',
    cors: 'GET, HEAD, OPTIONS, POST'
  })
  t.same(router.match('OPTIONS', '/a/1'), {
    outcome: 'method',
    allow: 'GET, HEAD, OPTIONS',
    cors: 'GET, HEAD, OPTIONS'
  })
  t.same(router.match('OPTIONS', '/closed'), { outcome: 'method', allow: 'GET, HEAD', cors: '' })
})

t.test('refuses a table with contradictions', async t => {
  t.throws(() => createRouter(table('GET /a/:x', 'GET /a/:y')), /Two routes answer GET \/a\/:y/)
  t.throws(() => createRouter(table('GET a')), /must begin with a slash/)
  t.throws(() => createRouter(table('GET /*rest/a')), /last segment/)
})
