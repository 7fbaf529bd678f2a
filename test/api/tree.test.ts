import t from 'tap'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

t.test('describes and verifies the files of a project', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const at = (route: string): string => `/api/projects/${shop.id}/${route}`
  const own = as(shop.token)
  t.match(await own.get(at('tree')), { status: 200, body: { success: true, baseline: 'none', files: 0 } })
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'hello', 'a.css': 'a {}' }) }
  const pushed = await own.upload([
    ['projectId', shop.id],
    ['file', file]
  ])
  const { deployId } = eventsOf(pushed).at(-1)
  t.match(await own.get(at('tree')), { body: { files: 2, bytes: 9, liveId: deployId, verified: null, drift: null } })

  rmSync(join(sites, 'shop/index.html'))
  const verified = await own.get(at('verify'))
  t.match(verified, { status: 200, headers: { 'content-type': 'application/x-ndjson' } })
  t.match(eventsOf(verified), [
    { event: 'start', files: 2, baseline: 'owned' },
    { event: 'finding', path: 'index.html', state: 'missing', since: deployId },
    { event: 'progress', done: 2, files: 2 },
    { event: 'end', files: 2, ok: 1, missing: 1 }
  ])
  const sums = eventsOf(await client.get(at('verify?sums=1'))).filter(({ event }) => event === 'file')
  t.match(sums, [
    { path: 'a.css', sha256: /^[0-9a-f]{64}$/ },
    { path: 'index.html', sha256: /^2cf24dba5fb0a30e/ }
  ])
  t.match(await client.get(at('tree?drift=1')), { body: { verified: { differing: 1 }, drift: { count: 1 } } })

  for (const route of ['tree', 'verify']) {
    t.match(await as(other.token).get(at(route)), { status: 403, body: { code: 'other_project' } })
    t.match(await client.get(`/api/projects/proj_x/${route}`), { status: 404, body: { code: 'not_found' } })
  }
  t.match(await own.get(at('tree?drift=maybe')), { status: 400, body: { field: 'drift' } })
  t.match(await own.get(at('verify?sums=maybe')), { status: 400, body: { field: 'sums' } })
  rmSync(join(sites, 'shop'), { recursive: true })
  writeFileSync(join(sites, 'shop'), 'a file')
  t.match(await own.get(at('verify')), { status: 409, body: { code: 'target_unusable' } }, 'an error response')
})

t.test('repairs the files of a project', async t => {
  const { as, client, createProject, sites } = await startServer(t)
  const shop = await createProject('shop')
  const other = await createProject('other')
  const files = { 'index.html': 'hello', 'a.css': 'a {}' }
  await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'site.zip', bytes: await zipOf(files) }]
  ])
  const route = `/api/projects/${shop.id}/repair`
  t.match(await client.post(route), { status: 409, body: { code: 'nothing_to_repair' } })
  for (const name of Object.keys(files)) rmSync(join(sites, 'shop', name))
  t.match(await client.post(route, { paths: ['x'] }), { status: 400, body: { code: 'invalid_field', field: 'paths' } })
  t.match(await client.post(route, { paths: 'x' }), { status: 400, body: { field: 'paths' } })
  const one = await client.post(route, { paths: ['a.css'], message: 'one' })
  t.match(one, { status: 200, body: { success: true, deployId: /^dep_/, status: 'success' } })
  t.match(await client.get(`/api/logs/${one.body.deployId}`), { body: { triggerSource: 'repair', message: 'one' } })
  const streamed = await client.post(route, {}, { accept: 'application/x-ndjson' })
  t.match(eventsOf(streamed).at(-1), { event: 'status', status: 'success' })
  t.equal(readFileSync(join(sites, 'shop/index.html'), 'utf8'), 'hello')
  t.match(await as(other.token).post(route), { status: 403 })
})
