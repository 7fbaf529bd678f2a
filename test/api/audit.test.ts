import t from 'tap'
import { startServer } from '../support/server.js'

t.test('the audit log', async t => {
  const { client, createProject } = await startServer(t)
  const one = await createProject('one')
  const two = await createProject('two')
  await client.put(`/api/projects/${two.id}`, { name: 'Two' })
  const items = async (query = '') =>
    (await client.get(`/api/audit${query}`)).body.items as Array<Record<string, unknown>>

  t.test('lists entries newest first, with the specified fields', async t => {
    const all = await items()
    t.same(
      all.map(({ action }) => action),
      ['project.update', 'project.create', 'project.create']
    )
    t.match(all[0], {
      id: /^aud_/,
      at: /Z$/,
      action: 'project.update',
      actor: 'admin',
      ip: '127.0.0.1',
      projectId: two.id,
      target: two.id,
      detail: 'name',
      ok: true
    })
  })

  t.test('filters and pages', async t => {
    t.equal((await items('?action=project.create')).length, 2)
    t.equal((await items(`?projectId=${one.id}`)).length, 1)
    const [newest] = await items('?limit=1')
    t.same(
      (await items(`?before=${newest?.['id']}`)).map(({ projectId }) => projectId),
      [two.id, one.id]
    )
    t.same(await items('?action=nothing'), [])
    t.equal((await client.get('/api/audit?limit=none')).status, 400)
    t.equal((await client.get('/api/audit?before=aud_unknown')).status, 400)
  })
})
