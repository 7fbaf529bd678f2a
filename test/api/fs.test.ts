import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
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
  const above = await list(dirname(home.directory))
  t.equal(above.status, 200, 'a directory above the data directory is listed')
  const paths: string[] = above.body.entries.map(({ path }: { path: string }) => path)
  t.ok(paths.includes(sites), 'with its other entries')
  t.notOk(paths.includes(home.directory), 'but without the data directory')
  for (const path of [home.directory, join(home.directory, 'deployments')]) {
    t.match(await list(path), { status: 403, body: { code: 'forbidden_path' } }, path)
  }

  t.match(await list('relative'), { status: 400, body: { field: 'path' } })
  t.match(await client.get('/api/fs/list'), { status: 400, body: { field: 'path' } })
  t.match(await list(sites, '&include=some'), { status: 400, body: { field: 'include' } })
  t.equal((await list('/proc/1')).status, 403)
})
