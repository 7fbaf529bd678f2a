import t from 'tap'
import { mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

t.test('lists the edited files of a project', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const drift = (token: string, query = '') => as(token).get(`/api/projects/${shop.id}/drift${query}`)
  t.match(await drift(shop.token), { status: 200, body: { success: true, baseline: 'none', count: 0 } })
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'hello', 'a.css': 'a {}' }) }
  const pushed = await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', file]
  ])
  const { deployId } = eventsOf(pushed).at(-1)
  writeFileSync(join(sites, 'shop/index.html'), 'by hand')
  for (const query of ['', '?full=1', '?full=false']) {
    const { body } = await drift(shop.token, query)
    t.match(body, { baseline: 'owned', partial: false, problem: null, count: 1 })
    t.match(body.files, [{ path: 'index.html', since: deployId, size: 7, mtime: /Z$/ }])
  }
  t.match(await client.get(`/api/projects/${shop.id}/drift`), { body: { count: 1 } }, 'the admin token, too')
  t.match(await drift(other.token), { status: 403, body: { code: 'other_project' } })
  t.match(await drift(shop.token, '?full=maybe'), { status: 400, body: { code: 'invalid_field', field: 'full' } })
  t.match(await client.get('/api/projects/proj_x/drift'), { status: 404, body: { code: 'not_found' } })
})

t.test('sends an edited file, and nothing else', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const names = ['edited.js', 'same.js', '.env', 'gone.js', 'link.js', 'sub/moved.js', 'dir.js']
  const bytes = await zipOf(Object.fromEntries(names.map(name => [name, name])))
  await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'site.zip', bytes }]
  ])
  const at = (name: string): string => join(sites, 'shop', name)
  for (const name of ['edited.js', '.env', 'own.js', 'sub/moved.js']) writeFileSync(at(name), 'by hand')
  for (const name of ['gone.js', 'link.js', 'dir.js']) rmSync(at(name))
  symlinkSync('own.js', at('link.js'))
  mkdirSync(at('dir.js'))
  renameSync(at('sub'), at('elsewhere'))
  symlinkSync('elsewhere', at('sub'))
  const get = (path: string, token = shop.token) =>
    as(token).get(`/api/projects/${shop.id}/drift/file?path=${encodeURIComponent(path)}`)
  const sent = await get('edited.js')
  t.match(sent, { status: 200, headers: { 'content-disposition': /attachment; filename="edited.js"/ } })
  t.equal(sent.text, 'by hand')
  for (const path of ['same.js', 'own.js', 'gone.js', 'link.js', 'sub/moved.js', 'elsewhere/moved.js']) {
    t.match(await get(path), { status: 404, body: { code: 'not_found' } }, path)
  }
  // A terabyte without contents: hashing it would take half an hour.
  truncateSync(at('edited.js'), 2 ** 40)
  const huge = as(shop.token).get(`/api/projects/${shop.id}/drift/file?path=edited.js`, { range: 'bytes=0-9' })
  t.match((await huge).status, 206)
  writeFileSync(at('edited.js'), 'by hand')
  t.match(await get('dir.js'), { status: 400, body: { code: 'not_a_file' } })
  t.match(await get('.env'), { status: 403, body: { code: 'denied_path' } })
  t.match(await get('../other/x'), { status: 404 })
  t.match(await get(''), { status: 400, body: { field: 'path' } })
  t.match(await get('edited.js', other.token), { status: 403, body: { code: 'other_project' } })
  t.match(await client.get('/api/projects/proj_x/drift/file?path=a'), { status: 404, body: { code: 'not_found' } })
})
