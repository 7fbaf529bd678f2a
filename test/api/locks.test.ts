import t from 'tap'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { adminToken, type Stage, startServer } from '../support/server.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import type { Marks } from '../../lib/model/marks.js'
import { startFleet } from '../support/fleet-on-server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

t.test('a locked project refuses uploads before the file, and Retry-After says how long', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/lock`
  const placed = await stage.client.put(path, { reason: ' audit ', seconds: 3600 })
  t.match(placed, { status: 200, body: { success: true, lock: { owner: 'admin', reason: 'audit', kind: 'lock' } } })

  const bytes = await zipOf({ 'a.txt': '1' })
  const refused = {
    status: 409,
    body: { code: 'locked', error: matching(deploySays.lockedBy('Project shop', 'admin')) },
    headers: { 'retry-after': /^3(600|5\d\d)$/ }
  }
  const asShop = stage.as(shop.token)
  t.match(
    await asShop.upload([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes }]
    ]),
    refused
  )
  t.match(
    await asShop.upload([
      ['file', { filename: 'a.zip', bytes }],
      ['projectId', shop.id]
    ]),
    refused
  )
  t.match(await asShop.get(`/api/deploy/check?projectId=${shop.id}`), refused)
  t.match(await stage.client.put(path, { reason: 'again' }), refused)

  t.match(await asShop.delete(path), { status: 403, body: { code: 'other_owner' } })
  t.match(await stage.client.delete(path), { status: 200, body: { lock: { reason: 'audit' } } })
  t.match(await stage.client.delete(path), { status: 404 })
  t.match(await asShop.get(`/api/deploy/check?projectId=${shop.id}`), { status: 200, body: { deploymentsAhead: 0 } })
})

t.test('the end of a lock is given as seconds or as an instant, within limits', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/lock`
  const after = (seconds: number): string => new Date(Date.now() + seconds * 1000).toISOString()
  const wrong: Array<[object, string]> = [
    [{}, 'reason'],
    [{ reason: ' ' }, 'reason'],
    [{ reason: 'two\nlines' }, 'reason'],
    [{ reason: 'a', seconds: 59 }, 'seconds'],
    [{ reason: 'a', seconds: 30 * 24 * 3600 + 1 }, 'seconds'],
    [{ reason: 'a', expiresAt: after(-1) }, 'expiresAt'],
    [{ reason: 'a', expiresAt: after(31 * 24 * 3600) }, 'expiresAt'],
    [{ reason: 'a', expiresAt: '2030-01-01T00:00' }, 'expiresAt'],
    [{ reason: 'a', expiresAt: 'Friday' }, 'expiresAt'],
    [{ reason: 'a', expiresAt: after(3600), seconds: 60 }, 'expiresAt']
  ]
  for (const [body, field] of wrong)
    t.match(await stage.client.put(path, body), { status: 400, body: { field } }, JSON.stringify(body))
  t.same((await stage.client.get('/api/locks')).body, [])

  const expiresAt = after(7200)
  const { body } = await stage.client.put(path, { reason: 'a', expiresAt })
  t.ok(Math.abs(Date.parse(body.lock.expiresAt) - Date.parse(expiresAt)) <= 1000)
  const renewed = await stage.client.put(path, { reason: 'b', renew: true })
  t.equal(Date.parse(renewed.body.lock.expiresAt) - Date.parse(body.lock.expiresAt) > 20 * 3600 * 1000, true)
})

t.test('a deploy token sees and changes only the locks of its project', async t => {
  const stage = await startServer(t)
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const asShop = stage.as(shop.token)
  t.match(await asShop.put(`/api/projects/${shop.id}/lock`, { reason: 'mine' }), {
    body: { lock: { owner: `project:${shop.id}` } }
  })
  t.match(await asShop.put(`/api/projects/${forum.id}/lock`, { reason: 'x' }), { status: 403 })
  t.match(await asShop.put('/api/lock', { reason: 'x' }), { status: 403 })
  await stage.client.put(`/api/projects/${forum.id}/lock`, { reason: 'secret plan' })
  t.match(await stage.client.put('/api/lock', { reason: 'move' }), { body: { lock: { projectId: null } } })

  const reasons = async (client: typeof asShop, query = ''): Promise<string[]> =>
    (await client.get(`/api/locks${query}`)).body.map(({ reason }: { reason: string }) => reason)
  t.same(await reasons(asShop), ['move', 'mine'])
  t.same(await reasons(asShop, `?projectId=${forum.id}`), ['move', 'mine'])
  t.same(await reasons(stage.client), ['move', 'mine', 'secret plan'])
  t.same(await reasons(stage.client, `?projectId=${forum.id}`), ['move', 'secret plan'])

  const takeOver = { takeOver: 'urgent' }
  const headers = { 'content-type': 'application/json' }
  const take = { headers, body: JSON.stringify(takeOver) }
  t.match(await stage.client.delete(`/api/projects/${shop.id}/lock`), { status: 403, body: { error: /takeOver/ } })
  t.match(await stage.as(adminToken).send('DELETE', `/api/projects/${shop.id}/lock`, take), { status: 200 })
  t.match(await stage.client.delete('/api/lock'), { status: 200 })
  t.same(await reasons(asShop), [])
})

const push = async (stage: Stage, project: { id: string; token: string }, files: Record<string, string>) =>
  stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf(files) }]
  ])

t.test('a maintenance places the file, shows who began it, and removes the file', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/maintenance`
  const file = join(shop.deployPath, '.maintenance')
  t.match(await stage.client.get(path), { status: 200, body: { success: true, maintenance: null } })

  const begun = await stage.client.put(path, { on: true, reason: ' new <disk> & "more" ' })
  t.match(begun, { status: 200, body: { maintenance: { by: 'admin', reason: 'new <disk> & "more"' } } })
  t.match(readFileSync(file, 'utf8'), /^<!doctype html>[^]*shop is in maintenance[^]*new &lt;disk&gt; &amp; &quot;more/)
  t.equal(statSync(file).mode & 0o777, 0o644 & ~process.umask())
  t.same(readdirSync(shop.deployPath), ['.maintenance'], 'no staging directory is left')
  t.same(readdirSync(stage.home.deployments), [], 'no journal and no list of files is left')
  t.same(readdirSync(stage.home.tmp), [])
  t.same((await stage.client.get(path)).body.maintenance, begun.body.maintenance)
  t.match(await stage.client.put(path, { on: true }), { status: 409, body: { code: 'maintenance_on' } })

  await stage.restart()
  t.same((await stage.client.get(path)).body.maintenance, begun.body.maintenance, 'it survives a restart')
  t.same((await stage.client.get('/api/locks')).body, [], 'it is not a lock')
  t.match((await stage.client.get('/api/locks?kind=all')).body, [
    { projectName: 'shop', kind: 'maintenance', owner: 'admin', expiresAt: null }
  ])
  t.match(await stage.client.get('/api/locks?kind=none'), { status: 400, body: { field: 'kind' } })

  t.match(await push(stage, shop, { 'index.html': 'new' }), { status: 200 })
  t.ok(existsSync(file), 'deployments are possible, and leave the file')
  t.match(await stage.client.put(path, { on: false }), { status: 200, body: { success: true, maintenance: null } })
  t.same(readdirSync(shop.deployPath), ['index.html'])
  t.match(
    await stage.client.put(path, { on: false }),
    { status: 200, body: { maintenance: null } },
    'it is off already'
  )
  const audit = (await stage.client.get('/api/audit?limit=10')).body.items as Array<{ action: string }>
  t.same(
    audit.map(({ action }) => action).filter(action => action.startsWith('project.maintenance')),
    ['project.maintenance_off', 'project.maintenance_on']
  )
})

t.test('a file that svc did not place is neither replaced nor removed without force', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/maintenance`
  const file = join(shop.deployPath, '.maintenance')
  await push(stage, shop, { 'index.html': '1', '.maintenance': 'mine' })
  t.match(await stage.client.put(path, { on: true }), { status: 409, body: { code: 'maintenance_file_exists' } })
  t.equal(readFileSync(file, 'utf8'), 'mine')
  t.match((await stage.client.get(path)).body, { maintenance: null })
  t.match(await stage.client.put(path, { on: true, force: true }), { status: 200 })

  writeFileSync(file, 'edited')
  t.match(await stage.client.put(path, { on: false }), { status: 409, body: { code: 'maintenance_changed' } })
  t.equal(readFileSync(file, 'utf8'), 'edited')
  t.match((await stage.client.get(path)).body, { maintenance: { by: 'admin' } })
  t.match(await stage.client.put(path, { on: false, force: true }), { status: 200, body: { maintenance: null } })
  t.notOk(existsSync(file))

  mkdirSync(file)
  t.match(
    await stage.client.put(path, { on: true, force: true }),
    { status: 409, body: { code: 'maintenance_file_exists' } },
    'a directory is never replaced'
  )
})

t.test('an archive that touches the maintenance file is refused while the maintenance is on', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { policy: { maintenanceFile: 'public/down.html' } } as object)
  const path = `/api/projects/${shop.id}/maintenance`
  const before = { 'index.html': '1', 'public/down.html': 'shipped' }
  t.match((await push(stage, shop, before)).text, /"status":"success"/, 'it is an ordinary path otherwise')
  const { body: deployments } = await stage.client.get('/api/logs')
  t.match(await stage.client.put(path, { on: true, force: true }), { status: 200 })
  const placed = readFileSync(join(shop.deployPath, 'public/down.html'), 'utf8')
  for (const name of ['public/down.html', 'Public/Down.HTML', 'public/down.html/a', 'public']) {
    const { text } = await push(stage, shop, { 'index.html': '2', [name]: 'x' })
    t.match(text, /"status":"failed"/, name)
    t.match((await stage.client.get('/api/logs?limit=1')).body[0].errorMessage, /maintenance file/, name)
  }
  const back = await stage.client.post(`/api/deployments/${deployments[0].id}/rollback`)
  t.match(back.text, /"status":"failed"/, 'a rollback, too')
  t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), '1')
  t.equal(readFileSync(join(shop.deployPath, 'public/down.html'), 'utf8'), placed)

  t.match(await stage.client.put(`/api/projects/${shop.id}`, { deployPath: `${shop.deployPath}-2` }), {
    status: 409,
    body: { code: 'maintenance_on' }
  })
  await stage.client.put(`/api/projects/${shop.id}`, { policy: { maintenanceFile: null } })
  t.match(await stage.client.put(path, { on: false }), { status: 200 })
  t.same(readdirSync(join(shop.deployPath, 'public')), [], 'the file that was placed is removed after a change')
  t.match((await push(stage, shop, before)).text, /"status":"success"/)
})

t.test('the page of the policy is read from the target, within limits and not through links', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { policy: { maintenancePage: 'errors/503.html' } } as object)
  const path = `/api/projects/${shop.id}/maintenance`
  const refused = { status: 409, body: { code: 'maintenance_page' } }
  t.match(await stage.client.put(path, { on: true }), refused, 'the file is missing')
  await push(stage, shop, { 'errors/503.html': '<h1>Back soon</h1>' })
  t.match(await stage.client.put(path, { on: true }), { status: 200 })
  t.equal(readFileSync(join(shop.deployPath, '.maintenance'), 'utf8'), '<h1>Back soon</h1>')
  t.match(await stage.client.put(path, { on: false }), { status: 200 })

  writeFileSync(join(shop.deployPath, 'errors/503.html'), Buffer.alloc(1024 * 1024 + 1))
  t.match(await stage.client.put(path, { on: true }), refused, 'the file is too large')
  const secret = join(stage.sites, 'secret')
  writeFileSync(secret, 'secret')
  symlinkSync(secret, join(shop.deployPath, 'link'))
  await stage.client.put(`/api/projects/${shop.id}`, { policy: { maintenancePage: 'link' } })
  t.match(await stage.client.put(path, { on: true }), refused, 'the file is a link')
  t.notOk(existsSync(join(shop.deployPath, '.maintenance')))

  for (const wrong of ['', '/etc/x', '../x', 'a/../b', 'a//b', '.svc-staging-x', 'a/.svc-x', 'a\\b', 'a\u202eb']) {
    for (const key of ['maintenanceFile', 'maintenancePage']) {
      const answer = await stage.client.put(`/api/projects/${shop.id}`, { policy: { [key]: wrong } })
      t.match(answer, { status: 400, body: { field: `policy.${key}` } }, JSON.stringify(wrong))
    }
  }
})

t.test('a deploy token ends only the maintenance that it began', async t => {
  const stage = await startServer(t)
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const asShop = stage.as(shop.token)
  const path = `/api/projects/${shop.id}/maintenance`
  t.match(await asShop.put(path, { on: true }), { body: { maintenance: { by: `project:${shop.id}`, reason: null } } })
  t.match(await asShop.put(path, { on: false }), { status: 200 })
  await stage.client.put(path, { on: true })
  t.match(await asShop.put(path, { on: false }), { status: 403, body: { code: 'other_owner' } })
  t.match(await asShop.get(path), { status: 200, body: { maintenance: { by: 'admin' } } })
  for (const answer of [
    await asShop.get(`/api/projects/${forum.id}/maintenance`),
    await asShop.put(`/api/projects/${forum.id}/maintenance`, { on: true })
  ]) {
    t.match(answer, { status: 403, body: { code: 'other_project' } })
  }
  t.match(await stage.client.get('/api/projects/proj_x/maintenance'), { status: 404 })
  t.match(await stage.client.put('/api/projects/proj_x/maintenance', { on: true }), { status: 404 })
})

t.test('of many callers at the same time, one begins the maintenance, and one ends it', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/maintenance`
  const statuses = async (on: boolean): Promise<number[]> => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => stage.client.put(path, { on })))
    return answers.map(({ status }) => status).sort()
  }
  t.same(await statuses(true), [200, ...Array.from({ length: 19 }, () => 409)])
  t.ok(existsSync(join(shop.deployPath, '.maintenance')))
  t.same(
    await statuses(false),
    Array.from({ length: 20 }, () => 200)
  )
  t.same(readdirSync(shop.deployPath), [])
  const audit = (await stage.client.get('/api/audit?limit=50')).body.items as Array<{ action: string }>
  t.equal(audit.filter(({ action }) => action.startsWith('project.maintenance')).length, 2)
})

t.test('marks say what waits, what is locked, and what failed in the background', async t => {
  const { stage, shop } = await startFleet(t, ['web-1', 'web-2'])
  const other = await stage.createProject('other', { postDeployScript: 'exit 4', postDeployAsync: true })
  const marks = async (client = stage.client, query = '') => (await client.get(`/api/marks${query}`)).body as Marks
  const placed = [{ projectId: shop.id, first: 'web-1', nodes: 2 }]
  t.same(await marks(), { waiting: [], locks: [], failedInBackground: [], placed })

  await stage.client.put(`/api/projects/${shop.id}`, {
    policy: { rollout: { canary: 1, then: '1', pause: 'approve' } }
  })
  const file = { filename: 'a.zip', bytes: await zipOf({ 'a.txt': '1' }) }
  const push = (project: { id: string; token: string }) =>
    stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', file]
    ])
  const pushed = push(shop)
  await until(async () => (await marks()).waiting.length > 0)
  const [waiting] = (await marks()).waiting
  t.match(waiting, { for: 'approval', projectId: shop.id, projectName: 'shop', until: null, rolloutId: /^ro_/ })
  t.match(waiting?.deployId, /^dep_/)

  await stage.client.post(`/api/rollouts/${waiting?.rolloutId}/halt`, {})
  await pushed
  t.match(
    (await marks()).waiting,
    [{ for: 'halted', rolloutId: waiting?.rolloutId }],
    'somebody must decide what follows'
  )
  await push(other)
  await until(async () => (await marks()).failedInBackground.length > 0)
  await stage.client.put(`/api/projects/${other.id}/lock`, { reason: 'audit' })
  t.match(await marks(), {
    waiting: [{ projectId: shop.id }],
    locks: [{ kind: 'lock', projectId: other.id }],
    failedInBackground: [other.id]
  })

  t.match(await marks(stage.as(shop.token)), { waiting: [{ projectId: shop.id }], locks: [], failedInBackground: [] })
  t.match(await marks(stage.client, `?projectId=${other.id}`), {
    waiting: [],
    failedInBackground: [other.id],
    placed: []
  })
  t.match(await stage.as(shop.token).get(`/api/marks?projectId=${other.id}`), {
    status: 200,
    body: { failedInBackground: [] }
  })
  t.equal((await stage.client.get('/api/marks?projectId=proj_none')).status, 200, 'as the list of locks')

  await stage.client.post(`/api/rollouts/${waiting?.rolloutId}/resume`, {})
  await until(async () => (await marks()).waiting[0]?.for !== 'halted')
  await stage.client.post(`/api/rollouts/${waiting?.rolloutId}/approve`, {})
  await until(async () => (await marks()).waiting.length === 0)
})
