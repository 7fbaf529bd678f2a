import t from 'tap'
import { findProject, projectAmong, projectIdOfWord } from '../../../lib/cli/client/named-project.js'
import { stubClient } from '../../support/stub-client.js'

const project = (id: string, name: string) => ({ id, name })
const known = [project('proj_a', 'one'), project('proj_b', 'twice'), project('proj_c', 'twice')]
const withToken = (holder: object | null) =>
  stubClient({
    'GET /api/auth/whoami': () => holder,
    'GET /api/projects/:id': ({ id }: { id: string }) => project(id, 'by id'),
    'GET /api/projects': () => known
  })
const client = withToken({ role: 'admin', project: null })

t.test('a project is found by its id, or by a name that one project has', async t => {
  t.match(await findProject(client, 'proj_x'), { id: 'proj_x' })
  t.match(await findProject(client, 'one'), { id: 'proj_a' })
  t.match(await findProject(client, 'ONE'), { id: 'proj_a' })
  await t.rejects(findProject(client, 'none'), { code: 'no_such_project' })
  await t.rejects(findProject(client, 'twice'), { kind: 'usage', message: /proj_b, proj_c/ })
  t.equal(projectAmong(known, 'proj_b').name, 'twice')
  t.throws(() => projectAmong(known, 'proj_x'), { code: 'no_such_project' })
})

t.test('a deploy token knows the name of its own project only, a global one none', async t => {
  const own = withToken({ role: 'project', project: project('proj_a', 'one') })
  t.equal(await projectIdOfWord(own, 'one'), 'proj_a')
  t.equal(await projectIdOfWord(own, 'proj_b'), 'proj_b', 'the server refuses it')
  await t.rejects(projectIdOfWord(own, 'twice'), { code: 'no_such_project' })
  const everyProject = withToken({ role: 'global', project: null })
  t.equal(await projectIdOfWord(everyProject, 'proj_b'), 'proj_b')
  await t.rejects(projectIdOfWord(everyProject, 'one'), { kind: 'usage', message: /give the id/ })
  t.equal(await projectIdOfWord(withToken(null), 'one'), 'proj_a', 'a server that knows no whoami')
})
