import t from 'tap'
import { createCall, requestOf } from '../../../lib/cli/client/call.js'
import type { Call, Client } from '../../../lib/cli/client/client.js'

t.test('a route with its parameters, its query and its body', async t => {
  const asked: Call[] = []
  const json: Client['json'] = async call => void asked.push(call) as never
  const call = createCall({ address: '', open: () => Promise.reject(), probe: () => Promise.reject(), json })
  await call('GET /api/projects')
  await call('GET /api/logs', { query: { limit: 5, before: undefined } })
  await call('PUT /api/projects/:id/lock', { id: 'a/b', body: { reason: 'x' }, answerLimitMs: 1 })
  t.match(asked, [
    { method: 'GET', path: '/api/projects', query: {} },
    { method: 'GET', path: '/api/logs', query: { limit: '5', before: undefined } },
    { method: 'PUT', path: '/api/projects/a%2Fb/lock', json: { reason: 'x' }, answerLimitMs: 1 }
  ])
})

t.test('what no route takes does not compile', async t => {
  // @ts-expect-error the id is missing
  t.ok(requestOf('GET /api/projects/:id', {}))
  // @ts-expect-error an unknown parameter of the query
  t.ok(requestOf('GET /api/logs', { query: { limits: 5 } }))
})
