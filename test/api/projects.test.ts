import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { eventsOf } from '../support/client.js'

t.test('projects', async t => {
  const stage = await startServer(t)
  const { client, sites } = stage
  const path = (name: string) => join(sites, name)

  t.test('create returns the whole record', async t => {
    const { status, body } = await client.post('/api/projects', {
      name: ' Shop ',
      deployPath: `${path('shop')}/`,
      unknown: 1
    })
    t.equal(status, 200)
    t.equal(body.success, true)
    t.match(body.project, {
      id: /^proj_[a-z2-7]{16}$/,
      name: 'Shop',
      description: '',
      deployPath: path('shop'),
      token: /^[\w-]{43}$/,
      preDeployScript: '',
      postDeployScript: '',
      postDeployAsync: false,
      allowClientScripts: null,
      env: 'production',
      categoryId: null,
      pm2AppName: null,
      pinned: false,
      tagIds: [],
      status: 'idle',
      lastDeployAt: null,
      createdAt: /^\d{4}-\d\d-\d\dT.*Z$/,
      updatedAt: /Z$/
    })
    t.same((await client.get(`/api/projects/${body.project.id}`)).body, body.project)
  })

  t.test('refuses an invalid project and names the field', async t => {
    const ok = { name: 'x', deployPath: path('x') }
    const cases: Array<[object, string]> = [
      [{}, 'name'],
      [{ name: 'x' }, 'deployPath'],
      [{ ...ok, name: '' }, 'name'],
      [{ ...ok, name: ['x'] }, 'name'],
      [{ ...ok, deployPath: 'relative/path' }, 'deployPath'],
      [{ ...ok, deployPath: '/' }, 'deployPath'],
      [{ ...ok, deployPath: '/etc' }, 'deployPath'],
      [{ ...ok, deployPath: '/srv/../etc/' }, 'deployPath'],
      [{ ...ok, deployPath: '/proc/1' }, 'deployPath'],
      [{ ...ok, deployPath: '/etc/cron.d' }, 'deployPath'],
      [{ ...ok, deployPath: '/etc/cron.d', allowSystemPaths: true }, 'deployPath'],
      [{ ...ok, deployPath: '/root/.ssh/x' }, 'deployPath'],
      [{ ...ok, deployPath: stage.home.directory }, 'deployPath'],
      [{ ...ok, deployPath: stage.home.deployments }, 'deployPath'],
      [{ ...ok, deployPath: join(stage.home.directory, '..') }, 'deployPath'],
      [{ ...ok, description: 5 }, 'description'],
      [{ ...ok, env: {} }, 'env'],
      [{ ...ok, categoryId: 'cat_unknown' }, 'categoryId'],
      [{ ...ok, tagIds: ['tag_unknown'] }, 'tagIds'],
      [{ ...ok, tagIds: 'tag_a' }, 'tagIds'],
      [{ ...ok, tagIds: [null] }, 'tagIds[0]'],
      [{ ...ok, pm2AppName: 7 }, 'pm2AppName'],
      [{ ...ok, postDeployAsync: 'true' }, 'postDeployAsync']
    ]
    for (const [body, field] of cases) {
      const reply = await client.post('/api/projects', body)
      t.equal(reply.status, 400, `${field}: ${reply.text}`)
      t.match(reply.body, { success: false, error: String, code: String, field })
    }
    for (const body of ['[]', 'null', '"x"', '{', '']) {
      const reply = await client.send('POST', '/api/projects', {
        body,
        headers: { 'content-type': 'application/json' }
      })
      t.equal(reply.status, 400, body)
    }
  })

  t.test('refuses a target that is, contains or is inside the target of another project with 409', async t => {
    for (const deployPath of [path('shop'), path('shop/below'), sites]) {
      const reply = await client.post('/api/projects', { name: 'other', deployPath })
      t.equal(reply.status, 409, deployPath)
      t.match(reply.body, { code: 'path_taken', field: 'deployPath' })
    }
    t.equal((await client.post('/api/projects', { name: 'beside', deployPath: path('shop-old') })).status, 200)
  })

  t.test('an update changes only the given fields', async t => {
    const project = await stage.createProject('blog', { description: 'first' })
    const address = `/api/projects/${project.id}`
    const changes = {
      name: 'Blog',
      env: 'staging',
      preDeployScript: 'echo pre',
      postDeployScript: 'echo post',
      postDeployAsync: true,
      allowClientScripts: false,
      maxDiskMb: 500,
      pm2AppName: 'blog',
      deployPath: path('blog-2'),
      pinned: true
    }
    const { status, body } = await client.put(address, changes)
    t.equal(status, 200)
    t.match(body, { success: true, project: { ...changes, description: 'first', token: project.token } })
    const unbound = await client.put(address, { pm2AppName: '', allowClientScripts: null, maxDiskMb: null })
    t.match(unbound.body.project, { pm2AppName: null, maxDiskMb: null, allowClientScripts: null, name: 'Blog' })
    t.equal((await client.put(address, {})).status, 200)
    const strict = await client.put(address, { policy: { drift: 'refuse', confirm: { seconds: 60 } } })
    t.same(strict.body.project.policy, { drift: 'refuse', confirm: { seconds: 60 } })
    const softer = await client.put(address, { policy: { drift: null, onPostFailure: 'revert' } })
    t.same(softer.body.project.policy, { confirm: { seconds: 60 }, onPostFailure: 'revert' }, 'the other keys stay')
    t.same((await client.get(address)).body.policy, softer.body.project.policy)
    t.match(await client.put(address, { policy: { windows: [] } }), { status: 400, body: { field: 'policy.windows' } })
    await client.put(address, { policy: { confirm: null, onPostFailure: null } })

    for (const maxDiskMb of [0, -1, 1.5, '10', 1e12]) {
      t.match(
        await client.put(address, { maxDiskMb }),
        { status: 400, body: { field: 'maxDiskMb' } },
        String(maxDiskMb)
      )
    }
    t.equal((await client.put(address, { deployPath: path('shop') })).status, 409)
    t.equal((await client.put(address, { deployPath: path('blog-2') })).status, 200, 'its own path is not taken')
    t.equal((await client.put(address, { name: '' })).status, 400)
    t.match((await client.get(address)).body, { name: 'Blog', deployPath: path('blog-2') })
  })

  t.test('answers 404 for unknown ids', async t => {
    t.match(await client.get('/api/projects/proj_unknown'), {
      status: 404,
      body: { success: false, code: 'not_found' }
    })
    t.equal((await client.put('/api/projects/proj_unknown', { name: 'x' })).status, 404)
    t.equal((await client.delete('/api/projects/proj_unknown')).status, 404)
    t.equal((await client.post('/api/projects/proj_unknown/token')).status, 404)
    t.equal((await client.put('/api/projects/proj_unknown/pin', { pinned: true })).status, 404)
    t.equal((await client.get('/api/projects/proj_unknown/recent-scripts')).status, 404)
    t.equal((await client.get('/api/projects/..%2f..%2fetc')).status, 404)
  })

  t.test('a new token replaces the old one', async t => {
    const project = await stage.createProject('tokens')
    const { status, body } = await client.post(`/api/projects/${project.id}/token`)
    t.equal(status, 200)
    t.match(body, { success: true, token: /^[\w-]{43}$/ })
    t.not(body.token, project.token)
    t.equal((await client.get(`/api/projects/${project.id}`)).body.token, body.token)
    t.equal((await stage.as(project.token).get('/api/logs')).status, 401)
    t.equal((await stage.as(body.token).get('/api/logs')).status, 200)
  })

  t.test('pin', async t => {
    const project = await stage.createProject('pinned')
    t.match((await client.put(`/api/projects/${project.id}/pin`, { pinned: true })).body.project, { pinned: true })
    t.equal((await client.put(`/api/projects/${project.id}/pin`, { pinned: 'yes' })).status, 400)
  })

  t.test('every change is in the audit log, without tokens', async t => {
    const { body, text } = await client.get('/api/audit?limit=500')
    const actions = new Set(body.items.map((item: { action: string }) => item.action))
    for (const action of ['project.create', 'project.update', 'project.regenerate_token'])
      t.ok(actions.has(action), action)
    for (const { token } of (await client.get('/api/projects')).body) t.notMatch(text, token)
  })
})

t.test('labels of projects', async t => {
  const { client, createProject } = await startServer(t)
  const tag = async (name: string) => (await client.post('/api/tags', { name })).body.tag.id as string
  const [red, blue] = [await tag('red'), await tag('blue')]
  const category = (await client.post('/api/categories', { name: 'Sites' })).body.category.id as string
  const one = await createProject('one', { tagIds: [red], categoryId: category })
  const two = await createProject('two', { tagIds: [red, blue] })
  const three = await createProject('three')
  const idsOf = (reply: { body: Array<{ id: string }> }) => reply.body.map(({ id }) => id)

  t.test('lists projects newest first; a project must have all tagIds', async t => {
    t.same(idsOf(await client.get('/api/projects')), [three.id, two.id, one.id])
    t.same(idsOf(await client.get(`/api/projects?tagIds=${red}`)), [two.id, one.id])
    t.same(idsOf(await client.get(`/api/projects?tagIds=${red},${blue}`)), [two.id])
    t.same(idsOf(await client.get(`/api/projects?tagIds=${red}%2C${blue},`)), [two.id])
    t.same(idsOf(await client.get('/api/projects?tagIds=tag_unknown')), [])
    t.same(idsOf(await client.get('/api/projects?tagIds=')), [three.id, two.id, one.id])
  })

  t.test('tagIds replace all tags, without duplicates', async t => {
    const { body } = await client.put(`/api/projects/${one.id}`, { tagIds: [blue, blue] })
    t.same(body.project.tagIds, [blue])
    t.same((await client.put(`/api/projects/${one.id}`, { tagIds: [] })).body.project.tagIds, [])
    t.equal((await client.put(`/api/projects/${one.id}`, { categoryId: '' })).body.project.categoryId, null)
    t.equal((await client.put(`/api/projects/${one.id}`, { categoryId: category })).body.project.categoryId, category)
  })

  t.test('bulk', async t => {
    const bulk = (body: object) => client.post('/api/projects/bulk', body)
    const ids = [one.id, two.id, 'proj_unknown']
    const added = await bulk({ ids, action: 'addTags', tagIds: [red] })
    t.match(added.body, { success: true, done: 2, failed: [{ id: 'proj_unknown', error: String }] })
    t.same(idsOf(await client.get(`/api/projects?tagIds=${red}`)), [two.id, one.id])
    await bulk({ ids, action: 'removeTags', tagIds: [red] })
    t.same(idsOf(await client.get(`/api/projects?tagIds=${red}`)), [])
    await bulk({ ids, action: 'setCategory', categoryId: category })
    t.equal((await client.get(`/api/projects/${two.id}`)).body.categoryId, category)
    const allowed = async () => (await client.get(`/api/projects/${two.id}`)).body.allowClientScripts
    await bulk({ ids, action: 'setClientScripts', allowClientScripts: false })
    t.equal(await allowed(), false)
    t.match((await bulk({ ids, action: 'setClientScripts' })).body, { field: 'allowClientScripts' })
    await bulk({ ids, action: 'setClientScripts', allowClientScripts: null })
    t.equal(await allowed(), null)
    t.match((await bulk({ ids: [three.id], action: 'delete' })).body, { done: 1, failed: [] })
    t.equal((await client.get(`/api/projects/${three.id}`)).status, 404)
    for (const wrong of [
      {},
      { ids: [] },
      { ids: [one.id], action: 'explode' },
      { ids: Array(201).fill('x'), action: 'delete' }
    ]) {
      t.equal((await bulk(wrong)).status, 400)
    }
  })
})

t.test('deleting a project', async t => {
  const { client, createProject, as, home, sites } = await startServer(t)
  const project = await createProject('shop')
  const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'hello' }) }
  const pushed = eventsOf(
    await as(project.token).upload([
      ['projectId', project.id],
      ['file', file]
    ])
  )
  const { deployId } = pushed.at(-1)
  const slow = await createProject('slow', { postDeployScript: 'sleep 30' })
  const open = await as(slow.token).open('POST', '/api/deploy/upload', await slowUpload(slow.id))

  t.test('deletes its records and their files, but not the target', async t => {
    const { existsSync, readdirSync } = await import('node:fs')
    t.ok(readdirSync(home.deployments).some(name => name.startsWith(deployId)))
    t.match((await client.delete(`/api/projects/${project.id}`)).body, { success: true, message: String })
    t.equal((await client.get(`/api/logs/${deployId}`)).status, 404)
    t.notOk(readdirSync(home.deployments).some(name => name.startsWith(deployId)))
    t.ok(existsSync(join(sites, 'shop/index.html')))
    t.equal((await as(project.token).get('/api/logs')).status, 401, 'its token is not valid')
  })

  t.test('is refused while a deployment runs, and so is a change of the deployPath', async t => {
    const refused = await client.delete(`/api/projects/${slow.id}`)
    t.equal(refused.status, 409)
    t.match(refused.body, { code: 'deployment_running' })
    t.equal((await client.put(`/api/projects/${slow.id}`, { deployPath: join(sites, 'elsewhere') })).status, 409)
    const [running] = (await client.get(`/api/logs?projectId=${slow.id}`)).body
    t.equal((await client.post(`/api/deployments/${running.id}/cancel`)).status, 200)
    open.resume()
    t.equal((await client.delete(`/api/projects/${slow.id}`)).status, 200)
  })

  async function slowUpload(projectId: string) {
    const { formOf } = await import('../support/client.js')
    const { contentType, body } = formOf([
      ['projectId', projectId],
      ['file', file]
    ])
    return { headers: { 'content-type': contentType }, body }
  }
})

t.test('recent scripts are those of the last successful deployment that ran scripts', async t => {
  const { client, createProject, as, sites } = await startServer(t)
  mkdirSync(join(sites, 'shop'))
  writeFileSync(join(sites, 'shop/old.txt'), 'old')
  const project = await createProject('shop')
  const address = `/api/projects/${project.id}/recent-scripts`
  t.same((await client.get(address)).body, { deployId: null, preDeployScript: '', postDeployScript: '' })
  const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'hello' }) }
  const push = (fields: Array<[string, string]>) =>
    as(project.token).upload([['projectId', project.id], ['file', file], ...fields])
  const { deployId } = eventsOf(await push([['postDeploy', 'echo done']])).at(-1)
  await push([])
  await push([['postDeploy', 'exit 1']])
  t.same((await client.get(address)).body, { deployId, preDeployScript: '', postDeployScript: 'echo done' })
})

t.test('system paths are allowed if the operator of the server allows them', async t => {
  const { client } = await startServer(t, { allowSystemPaths: true })
  const made = await client.post('/api/projects', { name: 'jobs', deployPath: '/etc/cron.d/svc-test' })
  t.equal(made.status, 200)
  t.equal((await client.put(`/api/projects/${made.body.project.id}`, { deployPath: '/proc/1' })).status, 400)
})
