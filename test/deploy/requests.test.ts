import t from 'tap'
import { readdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { zipOf } from '../support/zips.js'

const limitBytes = 1024 * 1024

t.test('a refused deployment leaves nothing behind', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ allowClientScripts: false })
  const cases = [
    { request: { projectId: 'proj_none' }, error: { code: 'not_found' } },
    { request: { projectId: project.id, postDeploy: 'rm -rf /' }, error: { code: 'client_scripts_off' } }
  ]
  for (const { request, error } of cases) {
    const received = await stage.deployer.receive(Readable.from([await zipOf({ a: '1' })]), {
      limitBytes,
      signal: never
    })
    await t.rejects(stage.deployer.deploy(received, { env: {}, actor: admin, ...request }), error as object as Error)
    t.strictSame(await readdir(stage.home.tmp), [])
    t.strictSame(await readdir(stage.home.deployments), [])
  }
  t.strictSame(stage.audits, [])
  t.throws(() => stage.deployer.checkClientScripts(project.id, { preDeploy: 'x' }), { code: 'client_scripts_off' })
  t.throws(() => stage.deployer.checkClientScripts('proj_none', {}), { code: 'not_found' })
  t.doesNotThrow(() => stage.deployer.checkClientScripts(project.id, {}))
  stage.values.allow_client_scripts = false
  const other = await stage.addProject()
  t.throws(() => stage.deployer.checkClientScripts(other.id, { preDeploy: 'x' }), { code: 'client_scripts_off' })
})
