import t from 'tap'
import {
  findProject,
  projectAmong,
  projectIdOfWord,
  nearOr,
  withNearNames
} from '../../../lib/cli/client/named-project.js'
import { stubClient } from '../../support/stub-client.js'
import type { Client } from '../../../lib/cli/client/client.js'
import { Refusal } from '../../../lib/base/errors.js'

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

t.test('nearOr asks for the nearest name, or gives the advice', async t => {
  const cases: Array<[word: string, said: string]> = [
    ['shp', 'Did you mean "shop"?'],
    ['SHOP', 'Did you mean "shop"?'],
    ['nothing', 'see the list']
  ]
  for (const [word, said] of cases) t.equal(nearOr(word, ['shop', 'wiki'], 'see the list'), said, word)
})

/** A client whose every request but the lists is refused with a sentence; `lists` fails, too, if it is a refusal. */
function clientThat(sentence: string, lists: object | Refusal): Client {
  const refuse = async (): Promise<never> => {
    throw new Refusal('not_found', 'not_found', sentence)
  }
  const call = async (route: string): Promise<unknown> => {
    if (!['GET /api/projects', 'GET /api/nodes'].includes(route)) return refuse()
    if (lists instanceof Refusal) throw lists
    return lists
  }
  return withNearNames({
    address: '',
    open: refuse,
    json: refuse,
    ask: refuse,
    call,
    probe: refuse
  } as unknown as Client)
}

t.test('a refusal of an unknown name says what is near, and stays the same otherwise', async t => {
  const projects = [{ id: 'proj_1', name: 'shop' }]
  const notAllowed = new Refusal('forbidden', 'forbidden', 'Permission denied')
  const cases: Array<[sentence: string, lists: object | Refusal, said: string]> = [
    ['Project not found: "shp"', projects, 'Project not found: "shp". Did you mean "shop"?'],
    ['Node not found: "web1"', { nodes: [{ name: 'web-1' }] }, 'Node not found: "web1". Did you mean "web-1"?'],
    ['Deployment not found: "dep_1"', projects, 'Deployment not found: "dep_1"'],
    ['Project not found: "shp"', notAllowed, 'Project not found: "shp"'],
    ['Plan not found: "p". Plan again', projects, 'Plan not found: "p". Plan again']
  ]
  for (const [sentence, lists, said] of cases) {
    const client = clientThat(sentence, lists)
    const expected = { code: 'not_found', kind: 'not_found', message: said }
    await t.rejects(client.call('GET /api/settings'), expected)
    await t.rejects(client.json({ path: '/' }), expected)
    await t.rejects(client.open({ path: '/' }), { message: sentence }, 'as the server says it')
    await t.rejects(client.ask('GET /api/settings', {}), expected)
  }
})
