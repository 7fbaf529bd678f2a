import t from 'tap'
import { createCall, placeOf } from '../../../www/server/calls.js'
import { startDeployment } from '../../../www/server/requests.js'
import type { SendOptions } from '../../../www/server/calls.js'
import type { Client } from '../../../www/server/client.js'

function seen() {
  const asked: Array<[method: string, path: string, options: SendOptions | undefined]> = []
  const ask: Client['ask'] = async (method, path, options) => {
    asked.push([method, path, options])
    return { lock: 'a' } as never
  }
  return { asked, call: createCall(ask) }
}

t.test('a route with its parameters, its query and its body', async t => {
  const { asked, call } = seen()
  await call('GET /api/locks', { query: { kind: 'all', projectId: undefined } })
  await call('GET /api/projects')
  const { signal } = new AbortController()
  const { lock } = await call('PUT /api/projects/:id/lock', { id: 'a/b c', body: { reason: 'x' }, signal })
  t.equal(lock as unknown, 'a')
  t.strictSame(asked, [
    ['GET', 'api/locks?kind=all', {}],
    ['GET', 'api/projects', {}],
    ['PUT', 'api/projects/a%2Fb%20c/lock', { body: { reason: 'x' }, signal }]
  ])
})

t.test('what no route takes does not compile', async t => {
  const { call } = seen()
  // @ts-expect-error the id is missing
  await call('PUT /api/projects/:id/lock', { body: { reason: 'x' } })
  // @ts-expect-error an unknown field
  await call('PUT /api/lock', { body: { why: 'x' } })
  // @ts-expect-error an unknown kind
  await call('GET /api/locks', { query: { kind: 'every' } })
  // @ts-expect-error an unknown route
  await call('GET /api/lock')
  t.end()
})

t.test('a query with text of any kind', async t => {
  t.equal(placeOf('GET /api/search', { query: { q: 'a&b=ü', limit: 5 } }), 'api/search?q=a%26b%3D%C3%BC&limit=5')
})

t.test('starts a deployment and leaves its stream', async t => {
  const sent: unknown[] = []
  let isCancelled = false
  const body = new ReadableStream({ cancel: () => void (isCancelled = true) })
  const send: Client['send'] = async (...given) => {
    sent.push(given)
    return new Response(body, { headers: { 'x-svc-deploy-id': 'dep_1' } })
  }
  const id = await startDeployment({ send } as Client, 'POST /api/projects/:id/undo', {
    id: 'proj_1',
    body: { message: null }
  })
  t.equal(id, 'dep_1')
  t.ok(isCancelled)
  t.strictSame(sent, [
    ['POST', 'api/projects/proj_1/undo', { headers: { accept: 'application/x-ndjson' }, body: { message: null } }]
  ])
})
