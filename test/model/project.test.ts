import t from 'tap'
import { newProject, projectReaders } from '../../lib/model/project.js'

const given = { name: 'Shop', deployPath: '/srv/shop' }
const project = newProject(given, { id: 'proj_a', token: 'token', at: '2030-01-01T00:00:00.000Z' })

t.test('a new project has the defaults, and a reader for each of its fields', async t => {
  t.match(project, { ...given, env: 'production', policy: {}, runAs: null, status: 'idle', tagIds: [] })
  t.same(Object.keys(projectReaders.fields).sort(), Object.keys(project).sort())
})
