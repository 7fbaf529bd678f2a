import t from 'tap'
import { writeFileSync } from 'node:fs'
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
