import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'

t.test("the server's directories", async t => {
  const { client, sites, home } = await startServer(t)
  writeFileSync(join(sites, 'a.txt'), '')
  writeFileSync(join(sites, '.env'), '')
  const list = (path: string, more = '') => client.get(`/api/fs/list?path=${encodeURIComponent(path)}${more}`)

  t.match((await client.get('/api/fs/home')).body, { home: String, cwd: String, sep: '/', roots: ['/'] })
  const both = await list(sites)
  t.equal(both.status, 200)
  t.match(both.body, { path: sites, exists: true, isDir: true, truncated: false })
  t.same(
    both.body.entries.map(({ name }: { name: string }) => name),
    ['a.txt'],
    'denied places are left out'
  )
  t.same((await list(sites, '&include=dirs')).body.entries, [])
  t.match(
    (await list(home.directory)).body.entries.map(({ name }: { name: string }) => name),
    ['deployments', 'tmp']
  )

  t.match(await list('relative'), { status: 400, body: { field: 'path' } })
  t.match(await client.get('/api/fs/list'), { status: 400, body: { field: 'path' } })
  t.match(await list(sites, '&include=some'), { status: 400, body: { field: 'include' } })
  t.equal((await list('/proc/1')).status, 403)
})
