import t from 'tap'
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Stage, startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { eventsOf, formOf } from '../support/client.js'
import type { Project } from '../../lib/model/project.js'
import type { Variable } from '../../lib/model/variable.js'
import { loadSqlite } from '../../lib/core/store/memory.js'

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

t.test('categories and tags', async t => {
  const { client, createProject } = await startServer(t)

  for (const [kind, address] of [
    ['category', '/api/categories'],
    ['tag', '/api/tags']
  ] as const) {
    t.test(kind, async t => {
      const create = (body: unknown) => client.post(address, body)

      t.test('creates a label with the specified fields', async t => {
        const { status, body } = await create({ name: ' Web ', color: 'pink', sortOrder: 3 })
        t.equal(status, 200)
        t.equal(body.success, true)
        t.match(body[kind], {
          id: kind === 'category' ? /^cat_/ : /^tag_/,
          name: 'Web',
          color: 'pink',
          sortOrder: 3,
          projectCount: 0,
          createdAt: /Z$/,
          updatedAt: /Z$/
        })
      })

      t.test('a label without a color gets the first unused one', async t => {
        t.equal((await create({ name: 'a' })).body[kind].color, 'blue')
        t.equal((await create({ name: 'b' })).body[kind].color, 'green')
      })

      t.test('lists labels by sortOrder, then by name', async t => {
        const { body } = await client.get(address)
        t.same(
          body.map(({ name }: { name: string }) => name),
          ['a', 'b', 'Web']
        )
        t.match(body[0], { projectCount: 0 })
      })

      t.test('refuses a name that differs only in case with 409', async t => {
        t.match(await create({ name: 'WEB' }), { status: 409, body: { code: 'name_taken', field: 'name' } })
        const [a, b] = (await client.get(address)).body
        t.equal((await client.put(`${address}/${a.id}`, { name: 'B' })).status, 409)
        t.equal((await client.put(`${address}/${b.id}`, { name: 'B' })).status, 200, 'its own name in another case')
      })

      t.test('an update changes only the given fields', async t => {
        const [a] = (await client.get(address)).body
        const { body } = await client.put(`${address}/${a.id}`, { color: 'gray' })
        t.match(body, { success: true, [kind]: { name: 'a', color: 'gray' } })
        t.equal((await client.put(`${address}/${a.id}`, { sortOrder: 9 })).body[kind].sortOrder, 9)
      })

      t.test('refuses invalid values with 400', async t => {
        const cases: Array<[unknown, string]> = [
          [{}, 'name'],
          [{ name: '' }, 'name'],
          [{ name: 'x', color: 'red' }, 'color'],
          [{ name: 'x', sortOrder: 1.5 }, 'sortOrder'],
          [{ name: 'x', sortOrder: '1' }, 'sortOrder']
        ]
        for (const [body, field] of cases) t.match(await create(body), { status: 400, body: { field } }, field)
      })

      t.test('answers 404 for an unknown id', async t => {
        t.equal((await client.put(`${address}/x_unknown`, { name: 'y' })).status, 404)
        t.equal((await client.delete(`${address}/x_unknown`)).status, 404)
      })
    })
  }

  t.test('deleting a category moves its projects to the default one', async t => {
    const { category } = (await client.post('/api/categories', { name: 'gone soon' })).body
    const project = await createProject('one', { categoryId: category.id })
    t.equal(
      (await client.get('/api/categories')).body.find((one: { id: string }) => one.id === category.id).projectCount,
      1
    )
    const { body } = await client.delete(`/api/categories/${category.id}`)
    t.match(body, { success: true, message: String, movedProjects: 1 })
    t.equal((await client.get(`/api/projects/${project.id}`)).body.categoryId, null)
  })

  t.test('deleting a tag removes it from its projects', async t => {
    const { tag } = (await client.post('/api/tags', { name: 'gone soon' })).body
    const project = await createProject('two', { tagIds: [tag.id] })
    t.match((await client.delete(`/api/tags/${tag.id}`)).body, { success: true, detachedProjects: 1 })
    t.same((await client.get(`/api/projects/${project.id}`)).body.tagIds, [])
  })

  t.test('every change is in the audit log', async t => {
    const { items } = (await client.get('/api/audit?limit=500')).body
    const actions = new Set(items.map((item: { action: string }) => item.action))
    for (const kind of ['category', 'tag']) {
      for (const verb of ['create', 'update', 'delete']) t.ok(actions.has(`${kind}.${verb}`), `${kind}.${verb}`)
    }
  })
})

/*
 * Variables of projects, on a real server with real scripts: the API, the scripts that get the values, and places where
 * secrets must not appear.
 */

const secret = 'correct-horse-battery'
const pathOf = (project: Pick<Project, 'id'>): string => `/api/projects/${project.id}/variables`

async function push(stage: Stage, project: Project, fields: Record<string, string> = {}) {
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'x', 'apps/web/x': 'y' }) }],
    ...Object.entries(fields)
  ])
  const reply = await stage
    .as(project.token)
    .send('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  const events = eventsOf(reply) as Array<{ event: string; data?: string; status?: string; deployId?: string }>
  const deployId = events.find(event => event.deployId !== undefined)?.deployId as string
  return { status: events.at(-1)?.status, deployId, lines: events.flatMap(({ data }) => data ?? []) }
}

async function set(stage: Stage, project: Project, variables: object[]) {
  return stage.client.patch(pathOf(project), { variables })
}

const namesOf = (variables: Variable[]): string[] => variables.map(({ name }) => name)

/** Returns every file below a directory with its content. */
function filesOf(directory: string): Array<[string, string]> {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map(name => join(directory, name))
    .filter(path => statSync(path).isFile())
    .map(path => [path, readFileSync(path, 'latin1')])
}

t.test('requests and responses', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site')
  const { client } = stage

  t.test('PUT, PATCH and GET change and return variables', async t => {
    t.strictSame((await client.get(pathOf(project))).body, { success: true, variables: [] })
    const put = await client.put(pathOf(project), {
      variables: [
        { name: 'PORT', value: '80' },
        { name: 'PASSWORD', value: secret, secret: true }
      ]
    })
    t.match(put.body, {
      success: true,
      variables: [
        { name: 'PASSWORD', value: null, secret: true },
        { name: 'PORT', value: '80', secret: false }
      ]
    })
    t.notOk(put.text.includes(secret))
    t.strictSame((await client.get(pathOf(project))).body, put.body)

    const same = await client.put(pathOf(project), {
      variables: [{ name: 'PASSWORD', value: `${secret}!` }, { name: 'PORT' }]
    })
    t.match(
      same.body.variables,
      [
        { name: 'PASSWORD', value: null, secret: true },
        { name: 'PORT', value: '80' }
      ],
      'it stays a secret'
    )
    const kept = await client.put(pathOf(project), {
      variables: [
        { name: 'PASSWORD', secret: true },
        { name: 'EMPTY', value: '' }
      ]
    })
    t.match(kept.body, {
      variables: [
        { name: 'EMPTY', value: '' },
        { name: 'PASSWORD', value: null, updatedAt: same.body.variables[0].updatedAt }
      ]
    })

    const patched = await client.patch(pathOf(project), {
      variables: [{ name: 'A', value: '1' }],
      unset: ['EMPTY', 'NOT_THERE']
    })
    t.strictSame(namesOf(patched.body.variables), ['A', 'PASSWORD'])
    const imported = await client.patch(pathOf(project), {
      dotenv: '# x\nexport B="two\\nlines"\nC=three # no\n',
      secret: false
    })
    t.match(imported.body.variables, [
      { name: 'A' },
      { name: 'B', value: 'two\nlines' },
      { name: 'C', value: 'three' },
      { name: 'PASSWORD' }
    ])

    const audit = await client.get('/api/audit?action=project.variables')
    const details = audit.body.items.map(({ detail }: { detail: string }) =>
      detail
        .split('\n')
        .slice(1)
        .map(line => line.replace('variables.', ''))
    )
    t.strictSame(details, [
      ['B: none → ***', 'C: none → ***'],
      ['A: none → ***', 'EMPTY: *** → none'],
      ['EMPTY: none → ***', 'PORT: *** → none'],
      ['PASSWORD: changed'],
      ['PASSWORD: none → ***', 'PORT: none → ***', 'secret.PASSWORD: none → true']
    ])
    t.notOk(audit.text.includes(secret))
    await client.put(pathOf(project), { variables: imported.body.variables })
    t.equal(
      (await client.get('/api/audit?action=project.variables')).body.items.length,
      5,
      'what changes nothing is no change'
    )
  })

  t.test('refuses an invalid value with its field, and changes nothing', async t => {
    const before = (await client.get(pathOf(project))).text
    const many = Array.from({ length: 201 }, (_, index) => ({ name: `N${index}`, value: '' }))
    const large = Array.from({ length: 5 }, (_, index) => ({ name: `L${index}`, value: 'x'.repeat(60_000) }))
    const cases: Array<[body: object, field: string]> = [
      [{}, 'variables'],
      [{ variables: 7 }, 'variables'],
      [{ variables: ['x'] }, 'variables[0]'],
      [
        {
          variables: [
            { name: 'OK', value: '1' },
            { name: 'PATH', value: '1' }
          ]
        },
        'variables[1].name'
      ],
      [{ variables: [{ name: 'SVC_X', value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ name: 'LD_X', value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ name: 'A B', value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ name: 'A', value: 1 }] }, 'variables[0].value'],
      [{ variables: [{ name: 'A', value: 'x\0' }] }, 'variables[0].value'],
      [{ variables: [{ name: 'A', value: 'x', secret: 'yes' }] }, 'variables[0].secret'],
      [{ variables: [{ name: 'A', value: 'abc', secret: true }] }, 'variables[0].value'],
      [
        {
          variables: [
            { name: 'A', value: '1' },
            { name: 'A', value: '2' }
          ]
        },
        'variables[1].name'
      ],
      [{ variables: [{ name: 'NEW', secret: true }] }, 'variables[0].value'],
      [{ variables: [{ name: 'NEW' }] }, 'variables[0].value'],
      [{ variables: [{ name: 'PASSWORD', secret: false }] }, 'variables[0].value'],
      [{ variables: [{ name: 'PASSWORD', value: 'abc' }] }, 'variables[0].value'],
      [{ variables: many }, 'variables'],
      [{ variables: large }, 'variables']
    ]
    for (const [body, field] of cases) {
      const reply = await client.put(pathOf(project), body)
      t.match(
        reply,
        { status: 400, body: { success: false, code: 'invalid_field', field } },
        JSON.stringify(body).slice(0, 80)
      )
    }
    const patches: Array<[body: object, field: string]> = [
      [{ unset: 'A' }, 'unset'],
      [{ unset: ['A B'] }, 'unset[0]'],
      [{ variables: [{ name: 'A', value: '' }], unset: ['A'] }, 'unset'],
      [{ dotenv: 'nothing here' }, 'dotenv'],
      [{ dotenv: 'PATH=/x' }, 'dotenv'],
      [{ dotenv: 'A=b', secret: true }, 'dotenv']
    ]
    for (const [body, field] of patches)
      t.match(await client.patch(pathOf(project), body), { status: 400, body: { field } }, field)
    t.equal((await client.get(pathOf(project))).text, before)
    t.equal((await client.get('/api/projects/proj_none/variables')).status, 404)
    t.equal((await client.put('/api/projects/proj_none/variables', { variables: [] })).status, 404)
    for (const method of ['GET', 'PUT', 'PATCH']) {
      t.equal((await stage.as(project.token).send(method, pathOf(project))).status, 403, 'the deploy token is refused')
      t.equal((await stage.as(null).send(method, pathOf(project))).status, 401)
    }
  })

  t.test('simultaneous changes are all kept', async t => {
    const other = await stage.createProject('at-once')
    const names = Array.from({ length: 20 }, (_, index) => `N${index}`)
    await Promise.all(names.map(name => set(stage, other, [{ name, value: `value of ${name}`, secret: true }])))
    t.strictSame(namesOf((await client.get(pathOf(other))).body.variables), [...names].sort())
    const wholes = names.map(name => [
      { name, value: 'x', secret: false },
      { name: `${name}_B`, value: 'y' }
    ])
    await Promise.all(wholes.map(variables => client.put(pathOf(other), { variables })))
    const last = namesOf((await client.get(pathOf(other))).body.variables)
    t.ok(
      wholes.some(whole => JSON.stringify(whole.map(({ name }) => name)) === JSON.stringify(last)),
      `one of them, whole: ${last.join()}`
    )
  })

  t.test('deleting a project deletes its variables', async t => {
    const gone = await stage.createProject('gone')
    await set(stage, gone, [{ name: 'PASSWORD', value: secret, secret: true }])
    t.equal((await client.delete(`/api/projects/${gone.id}`)).status, 200)
    t.equal((await client.get(pathOf(gone))).status, 404)
  })
})

t.test('scripts get the values, and secrets appear nowhere else', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const script = [
    'echo "port=$PORT env=$FROM_CLIENT who=$WHO"',
    'echo "password: $PASSWORD"; echo "$PASSWORD" | fold -w 5',
    'tr "\\0" " " < /proc/$$/cmdline | grep -c "[c]orrect-horse" || true',
    'ps -e -o args= | grep -c "[c]orrect-horse" || true',
    'echo "$KEY"',
    'exit 3'
  ].join('\n')
  const project = await stage.createProject('site', { postDeployScript: script })
  await set(stage, project, [
    { name: 'PORT', value: '8080' },
    { name: 'WHO', value: 'server' },
    { name: 'PASSWORD', value: secret, secret: true },
    { name: 'KEY', value: 'first line of it\nsecond line of it', secret: true }
  ])
  const { status, lines, deployId } = await push(stage, project, {
    env: JSON.stringify({ WHO: 'client', FROM_CLIENT: 'yes' })
  })
  t.equal(status, 'failed')
  const text = lines.join('\n')
  t.match(text, 'port=8080 env=yes who=server')
  t.match(text, '"WHO" (the project sets it on the server)', 'reports ignored variables')
  t.match(text, 'password: ***')
  t.equal(lines.filter(line => line === '***').length, 7, `folded and by lines: ${text}`)
  t.strictSame(
    lines.filter(line => /^\d+$/.test(line)),
    ['0', '0'],
    'in no list of processes'
  )
  const record = await client.get(`/api/logs/${deployId}`)
  t.equal(record.status, 200)
  for (const [where, shown] of [
    ['the stream', text],
    ['the record', record.text],
    ['the audit', (await client.get('/api/audit')).text]
  ]) {
    t.notOk(/correct-horse|battery|line of it/.test(shown as string), `not in ${where}`)
  }
  // Its last files are being written until then.
  await stage.server.stop({ wait: true })
  t.ok(filesOf(stage.home.directory).length > 0)
  for (const [path, contents] of filesOf(stage.home.directory))
    t.notOk(/correct-horse|second line of it/.test(contents), path)

  const key = statSync(stage.home.variablesKey)
  if (process.platform !== 'win32') t.equal(key.mode & 0o777, 0o600)
})

t.test('a secret whose key is missing never becomes an empty value', async t => {
  const stage = await startServer(t)
  const { client, home } = stage
  const project = await stage.createProject('site', { postDeployScript: 'echo "[$PASSWORD]"' })
  const other = await stage.createProject('other', { postDeployScript: 'echo "[$PASSWORD]"' })
  for (const each of [project, other])
    await set(stage, each, [{ name: 'PASSWORD', value: `${secret} of ${each.name}`, secret: true }])
  t.match((await client.get('/api/health/detail')).body.secrets, { ok: true, why: null, unreadable: [] })

  renameSync(home.variablesKey, `${home.variablesKey}.aside`)
  const lost = await push(stage, project)
  t.equal(lost.status, 'failed')
  t.match(
    lost.lines.join('\n'),
    /Cannot read the secret "PASSWORD": the file is missing\. Restore ".*variables\.key" from a backup/
  )
  t.notOk(lost.lines.includes('[]'))
  t.match((await client.get('/api/health/detail')).body.secrets, {
    ok: false,
    unreadable: [`${project.id}: PASSWORD`, `${other.id}: PASSWORD`].sort()
  })
  const refused = await set(stage, project, [{ name: 'NEW', value: secret, secret: true }])
  t.match(refused, { status: 503, body: { code: 'variables_key' } }, 'no second key while secrets need the first')
  t.equal(
    (await set(stage, project, [{ name: 'PLAIN', value: 'x' }])).status,
    200,
    'plain variables do not need the key'
  )

  writeFileSync(home.variablesKey, `${'ab'.repeat(32)}\n`, { mode: 0o600 })
  const wrong = await push(stage, project)
  t.match(wrong.lines.join('\n'), /"PASSWORD": it was encrypted with another key/)

  renameSync(`${home.variablesKey}.aside`, home.variablesKey)
  t.ok((await push(stage, project)).lines.includes('[***]'), 'the correct key is restored')
  const script = await stage.createProject('no-script')
  await set(stage, script, [{ name: 'PASSWORD', value: secret, secret: true }])
  renameSync(home.variablesKey, `${home.variablesKey}.aside`)
  t.equal((await push(stage, script)).status, 'success', 'a deployment without scripts does not need the key')
})

t.test('a sealed value cannot be opened in another row', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site', { postDeployScript: 'echo "[$A] [$B]"' })
  await set(stage, project, [
    { name: 'A', value: 'value of a', secret: true },
    { name: 'B', value: 'value of b', secret: true }
  ])
  await stage.server.stop({ wait: true })
  const sqlite = await loadSqlite()
  const database = new sqlite.Database(readFileSync(stage.home.database))
  database.exec(`
    CREATE TEMP TABLE before AS SELECT * FROM variables;
    UPDATE variables SET value = (SELECT value FROM before WHERE before.name <> variables.name)`)
  writeFileSync(stage.home.database, database.export())
  database.close()
  chmodSync(stage.home.database, 0o600)
  await stage.restart().catch(error => t.fail(String(error)))
  const { lines } = await push(stage, project)
  t.match(
    lines.join('\n'),
    /Cannot read the secrets "A", "B": the stored value is damaged or belongs to something else/
  )
})

const list = (name: string, version: string): string =>
  JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components: [{ name, version }] })

t.test('a caller searches the releases of the projects that it sees', async t => {
  const stage = await startServer(t)
  const [shop, wiki] = [await stage.createProject('shop'), await stage.createProject('wiki')]
  const ids: Record<string, string> = {}
  for (const { project, version } of [
    { project: shop, version: '2.14.1' },
    { project: wiki, version: '2.17.0' }
  ]) {
    const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': project.name }) }
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', file]
    ])
    const [{ id }] = (await stage.client.get(`/api/logs?projectId=${project.id}`)).body as [{ id: string }]
    ids[project.name] = id
    writeFileSync(join(stage.home.deployments, `${id}.sbom.json`), list('log4j-core', version))
  }
  const search = async (query: string, client = stage.client) =>
    (await client.get(`/api/components?${query}`)).body as any

  t.match(await search('name=LOG4J'), {
    searched: 2,
    components: [
      { projectName: 'shop', deployId: ids['shop'], version: '2.14.1', target: shop.deployPath },
      { projectName: 'wiki', deployId: ids['wiki'], version: '2.17.0', target: wiki.deployPath }
    ]
  })
  t.match((await search('name=log4j&version=2.14')).components, [{ projectName: 'shop' }])

  const own = await search('name=log4j', stage.as(wiki.token))
  t.match(own.components, [{ projectName: 'wiki', target: null }])
  t.equal(own.searched, 1)
  const { token } = (await stage.client.post('/api/tokens', { name: 'bob', role: 'viewer', projectIds: [shop.id] }))
    .body as { token: string }
  t.match((await search('name=log4j', stage.as(token))).components, [{ projectName: 'shop', target: shop.deployPath }])

  for (const query of ['', 'name=', `name=${'x'.repeat(201)}`])
    t.match(await search(query), { code: 'invalid_field' }, query)
  t.equal((await stage.as(null).get('/api/components?name=x')).status, 401)
})
