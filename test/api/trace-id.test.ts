import t from 'tap'
import { eventsOf, formOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

t.test('the id that a client gives its request finds the deployment', async t => {
  const stage = await startServer(t)
  const { client, as } = stage
  const shop = await stage.createProject('shop')
  const blog = await stage.createProject('blog')
  const push = async ({ id, token }: { id: string; token: string }, traceId: string) => {
    const { contentType, body } = formOf([
      ['projectId', id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ a: id }) }]
    ])
    const headers = { 'content-type': contentType, 'x-svc-trace-id': traceId }
    return await as(token).send('POST', '/api/deploy/upload', { headers, body })
  }
  const found = async (traceId: string, reader = client) => {
    const { body } = await reader.get(`/api/logs?traceId=${encodeURIComponent(traceId)}`)
    return body.map(({ id }: { id: string }) => id)
  }
  const idOf = (reply: Awaited<ReturnType<typeof push>>) => eventsOf(reply).at(-1).deployId as string

  const first = idOf(await push(shop, 'run-7/a:1'))
  const second = idOf(await push(shop, ''))
  const third = idOf(await push(blog, 'run-7/a:1'))
  t.same(await found('run-7/a:1'), [third, first])
  t.same(await found('run-7/a:1', as(shop.token)), [first], 'only what the caller may see')
  t.same(await found('run-7'), [])
  t.equal((await client.get(`/api/logs/${first}`)).body.traceId, 'run-7/a:1')
  t.equal((await client.get(`/api/logs/${second}`)).body.traceId, null)

  const headers = { 'x-svc-trace-id': 'back' }
  const path = `/api/deployments/${first}/rollback`
  const rollback = await client.send('POST', path, { headers })
  t.same(await found('back'), [rollback.body.deployId])
  const undo = await client.send('POST', `/api/projects/${shop.id}/undo`, { headers })
  t.same(await found('back'), [undo.body.deployId, rollback.body.deployId])

  for (const odd of ['two words', 'x'.repeat(201), 'ü']) {
    const refused = { status: 400, body: { code: 'invalid_field', field: 'X-Svc-Trace-Id' } }
    t.match(await push(shop, odd), refused)
    t.match(await client.send('POST', path, { headers: { 'x-svc-trace-id': odd } }), refused)
  }
  t.equal((await client.get('/api/logs')).body.length, 5)
})
