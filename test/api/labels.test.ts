import t from 'tap'
import { startServer } from '../support/server.js'

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
