import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

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
