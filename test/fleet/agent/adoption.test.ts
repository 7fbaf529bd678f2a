import t from 'tap'
import { adoptedFields, adoptProject } from '../../../lib/fleet/agent/adoption.js'
import { hubActor } from '../../../lib/fleet/agent/local.js'
import { releaseDocument as release } from '../../support/release-document.js'
import { startServer } from '../../support/server.js'

t.test('a project of the hub becomes one of the node, and follows it', async t => {
  const { server, sites, client } = await startServer(t)
  const needs = server.services.agent
  const base = {
    deployPath: `${sites}/shop`,
    project: { postDeployScript: 'true' }
  }
  const variables = [
    { name: 'B', value: 'secret', secret: true },
    { name: 'A', value: '1', secret: false }
  ]
  await adoptProject(needs, release({ ...base, variables, policy: { drift: 'refuse' } }))
  const first = needs.projects.get('proj_hub')
  t.match(first, {
    name: 'Shop',
    env: 'staging',
    postDeployScript: 'true',
    categoryId: null,
    policy: { drift: 'refuse' }
  })
  t.strictSame(await needs.variables.open('proj_hub'), [
    { name: 'A', value: '1', secret: false },
    { name: 'B', value: 'secret', secret: true }
  ])
  const entries = async (): Promise<number> => ((await client.get('/api/audit?limit=100')).body as []).length
  const before = await entries()
  await adoptProject(needs, release({ ...base, variables, policy: { drift: 'refuse' } }))
  t.equal(await entries(), before, 'nothing has changed')
  t.equal(needs.projects.get('proj_hub').updatedAt, first.updatedAt)

  await adoptProject(needs, release({ ...base, projectName: 'Shop 2', policy: { prune: 'managed' } }))
  t.match(needs.projects.get('proj_hub'), { name: 'Shop 2', policy: { prune: 'managed', drift: undefined } })
  t.strictSame(await needs.variables.open('proj_hub'), [])
  await t.rejects(needs.projects.adopt('proj_other', { ...adoptedFields(release(base)) }, hubActor), {
    code: 'path_taken'
  })
})

t.test('a node may forbid client scripts that its hub allows, and never allows more', t => {
  const adopted = (allowClientScripts: unknown): unknown =>
    adoptedFields(release({ project: { allowClientScripts } }))['allowClientScripts']
  t.equal(adopted(true), null, 'the setting of the node decides')
  t.equal(adopted(false), false)
  t.equal(adopted(null), null)
  t.end()
})
