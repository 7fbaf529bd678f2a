import t from 'tap'
import { createCall, placeOf, type SendOptions, type Client } from '../../../www/server/client.js'
import { startDeployment, followEvents } from '../../../www/server/requests.js'
import { createServer } from 'node:http'
import { createNdjsonReader } from '../../../lib/base/shared/api.js'
import { everyCut } from '../../support/cuts.js'
import { listen } from '../../support/on-loopback.js'

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

t.test('continues a broken stream after the last event, without losing or repeating events', async t => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    const from = Number(request.headers['last-event-id'] ?? 0)
    asked.push(String(from))
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let id = from + 1; id <= Math.min(from + 2, 5); id++) {
      response.write(`id: ${id}\nevent: log\ndata: line ${id}\n\n`)
    }
    if (from + 2 >= 5) response.end('event: status\ndata: success\n\n')
    // Half an event, then the end of the connection.
    else response.write(`id: ${from + 3}\nevent: log\ndata: li`, () => response.destroy())
  })
  const url = `http://127.0.0.1:${await listen(t, server)}/`

  const seen: string[] = []
  const states: string[] = []
  await followEvents({
    open: (lastId, signal) => fetch(url, { signal, headers: lastId === '' ? {} : { 'last-event-id': lastId } }),
    onEvent: ({ event, data }) => {
      seen.push(data)
      return event === 'status' ? 'last' : 'more'
    },
    onConnection: state => void states.push(state),
    isFinal: () => false,
    signal: new AbortController().signal
  })
  t.same(seen, ['line 1', 'line 2', 'line 3', 'line 4', 'line 5', 'success'])
  t.same(asked, ['0', '2', '4'])
  t.same(states, ['open', 'lost', 'open', 'lost', 'open'])
})

t.test('a final error ends the stream, a signal ends it silently', async t => {
  const refusal = new Error('404')
  const following = (open: () => Promise<Response>, signal: AbortSignal): Promise<void> =>
    followEvents({ open, onEvent: () => 'more', isFinal: error => error === refusal, signal })
  await t.rejects(
    following(() => Promise.reject(refusal), new AbortController().signal),
    refusal
  )

  const end = new AbortController()
  const done = following(() => Promise.reject(new Error('no network')), end.signal)
  setTimeout(() => end.abort(), 20)
  await t.resolves(done)
})

t.test('reads one value per line, cut anywhere', async t => {
  const values = [
    { event: 'log', data: 'héllo "wörld" \n 你' },
    { event: 'status', status: 'success' }
  ]
  const text = `${values.map(value => JSON.stringify(value)).join('\n\n')}\n`
  for (const { pieces, how } of everyCut(text)) {
    const read: unknown[] = []
    const reader = createNdjsonReader(value => void read.push(value))
    for (const piece of pieces) reader.push(piece)
    reader.end()
    t.same(read, values, how)
  }
})

t.test('reads a last line without a newline', async t => {
  const read: unknown[] = []
  const reader = createNdjsonReader(value => void read.push(value))
  reader.push('{"a":1}')
  t.same(read, [])
  reader.end()
  t.same(read, [{ a: 1 }])
})

t.test('throws for a broken line', async t => {
  t.throws(() => createNdjsonReader(() => {}).push('<html>\n'), { name: 'SyntaxError' })
})
