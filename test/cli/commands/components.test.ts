import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { zipOf } from '../../support/zip.js'

t.test('search-components says where a component is, and of which projects nothing is known', async t => {
  const stage = await startServer(t)
  const [shop, wiki] = [await stage.createProject('shop'), await stage.createProject('wiki')]
  for (const { id, token } of [shop, wiki])
    await stage.as(token).upload([
      ['projectId', id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': id }) }]
    ])
  const [{ id }] = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as [{ id: string }]
  const components = [{ group: 'org.apache', name: 'log4j', version: '2.14.1' }]
  const list = JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
  writeFileSync(join(stage.home.deployments, `${id}.sbom.json`), list)
  const run = (line: string, token = 'test-admin-token-0123456789') =>
    svc(line.split(' '), { cwd: stage.sites, env: { SVC_SERVER_URL: stage.url, SVC_TOKEN: token } })

  const found = await run('search-components log4j')
  t.equal(found.code, 0, found.stderr)
  t.match(found.stdout, /PROJECT +COMPONENT +VERSION[^]*shop +org\.apache\/log4j +2\.14\.1 +dep_/)
  t.match(found.stderr, /Without a list of components: wiki/)
  t.match(JSON.parse((await run('search-components log4j --version 2 --json')).stdout), {
    components: [{ deployId: id }]
  })
  const none = await run('search-components left-pad')
  t.match(none, { code: 1, stdout: '', stderr: /Not found in the list of components of what is in place/ })
  t.match(await run('search-components'), { code: 2 })
})
