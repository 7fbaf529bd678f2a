import t from 'tap'
import { startServer } from '../support/server.js'

t.test('search over the API', async t => {
  const { client, createProject } = await startServer(t)
  const { id } = await createProject('shop')
  const { status, body } = await client.get('/api/search?q=%20shop%20')
  t.equal(status, 200)
  t.equal(body.q, 'shop')
  t.same(
    body.groups.map(({ type }: { type: string }) => type),
    ['projects', 'deployments', 'log-sources', 'audit', 'settings']
  )
  t.match(body.groups[0], { type: 'projects', total: 1, items: [{ id, title: 'shop', href: `projects/${id}` }] })
  t.equal((await client.get('/api/search?q=shop&types=projects,audit')).body.groups.length, 2)
  t.equal((await client.get('/api/search')).body.groups[0].total, 0)
  t.match(await client.get('/api/search?q=x&types=users'), { status: 400, body: { field: 'types' } })
  t.match(await client.get('/api/search?q=x&limit=0'), { status: 400, body: { field: 'limit' } })
  t.equal((await client.get(`/api/search?q=${'x'.repeat(201)}`)).status, 400)
})
