import t from 'tap'
import type { Project } from '../../../../lib/model/project.js'
import { groupsOf } from '../../../../www/elements/projects/project-groups.js'

const project = (name: string, env: string, categoryId: string | null) => ({ name, env, categoryId }) as Project
const projects = [
  project('a', 'staging', 'internal'),
  project('b', 'production', null),
  project('c', 'staging', 'customers'),
  project('d', 'production', 'gone')
]
const shown = (...words: Parameters<typeof groupsOf>): string =>
  groupsOf(...words)
    .map(({ key, projects }) => `${key}: ${projects.map(({ name }) => name).join('')}`)
    .join(', ')

t.test('groups projects and keeps their order inside a group', async t => {
  t.equal(shown(projects, 'none', []), 'null: abcd')
  t.equal(shown(projects, 'env', []), 'production: bd, staging: ac')
  const categories = ['customers', 'internal', 'empty']
  t.equal(shown(projects, 'category', categories), 'customers: c, internal: a, null: bd')
})
