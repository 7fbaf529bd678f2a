import t from 'tap'
import { startServer } from '../support/server.js'

t.test('a change with If-Match is refused if the record has changed, and nothing is lost', async t => {
  const { client, createProject } = await startServer(t)
  const project = await createProject('shop')
  const category = (await client.post('/api/categories', { name: 'Web' })).body.category
  const tag = (await client.post('/api/tags', { name: 'Live' })).body.tag
  const target = (await client.post('/api/notification-targets', { name: 'Us', url: 'http://127.0.0.1:9/hook' })).body
    .target
  const records = [
    { path: `/api/projects/${project.id}`, key: 'project', list: '/api/projects' },
    { path: `/api/categories/${category.id}`, key: 'category', list: '/api/categories' },
    { path: `/api/tags/${tag.id}`, key: 'tag', list: '/api/tags' },
    { path: `/api/notification-targets/${target.id}`, key: 'target', list: '/api/notification-targets' }
  ]
  for (const { path, key, list } of records) {
    const put = (name: string, tag?: string) =>
      client.send('PUT', path, {
        body: JSON.stringify({ name }),
        headers: { 'content-type': 'application/json', ...(tag === undefined ? {} : { 'if-match': tag }) }
      })
    const first = (await put('first')).body[key]
    const mine = await put('mine', `"${first.updatedAt}"`)
    t.equal(mine.status, 200, `${key}: as it was read`)
    const stale = await put('theirs', '"2001-01-01T00:00:00.000Z"')
    t.match(
      stale,
      { status: 412, body: { success: false, code: 'changed_since', message: /has changed since .* Read it again/ } },
      key
    )
    const found = (await client.get(list)).body
    t.equal(
      (found.items ?? found).find(({ id }: { id: string }) => path.endsWith(id)).name,
      'mine',
      'nothing was changed'
    )
    t.equal(
      (await put('listed', `"2001-01-01T00:00:00.000Z", W/"${mine.body[key].updatedAt}"`)).status,
      200,
      'one of several'
    )
    t.equal((await put('any', '*')).status, 200)
    t.equal((await put('without')).status, 200, 'clients without the header are unaffected')
  }
  const update = (body: unknown, tag: string) =>
    client.send('PUT', '/api/settings', {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', 'if-match': tag }
    })
  const read = async (): Promise<string> => (await client.get('/api/settings')).headers.etag as string
  const tagOf = await read()
  t.equal(await read(), tagOf, 'reading changes nothing')
  t.equal((await update({ keep_archives: '7' }, tagOf)).status, 200)
  t.match(await update({ script_timeout: '9' }, tagOf), { status: 412, body: { code: 'changed_since' } })
  t.match((await client.get('/api/settings')).body, { keep_archives: '7', script_timeout: '1800' })
  t.equal((await update({ script_timeout: '0' }, await read())).status, 400)
  t.equal((await update({ script_timeout: '9' }, await read())).status, 200, 'a refused change does not count')
  t.equal((await client.put('/api/settings', { script_timeout: '10' })).status, 200)
})

t.test('only one of several simultaneous changes of the same state succeeds', async t => {
  const { client } = await startServer(t)
  const tag = (await client.get('/api/settings')).headers.etag as string
  const replies = await Promise.all(
    ['11', '12', '13', '14'].map(value =>
      client.send('PUT', '/api/settings', {
        body: JSON.stringify({ keep_archives: value }),
        headers: { 'content-type': 'application/json', 'if-match': tag }
      })
    )
  )
  t.same(replies.map(({ status }) => status).sort(), [200, 412, 412, 412])
})
