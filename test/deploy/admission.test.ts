import t from 'tap'
import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { createFiles } from '../../lib/deploy/files.js'
import { deleteDeploymentsOf } from '../../lib/core/store/tables/deployments.js'
import { deleteProject } from '../../lib/core/store/tables/projects.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { zipOf } from '../support/zips.js'
import { deploySays } from '../support/sentences/deploy.js'

const limitBytes = 1024 * 1024

t.test('stores the archive and the record before any script runs', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 9' })
  const run = await stage.push(project, { 'a.txt': '1' }, { message: 'x'.repeat(600) })
  const row = stage.row(run.deployId)
  t.match(row, {
    projectName: 'Shop',
    env: 'production',
    hasArtifact: true,
    archiveSha256: /^[0-9a-f]{64}$/,
    endTime: null
  })
  t.equal(row.message?.length, 500)
  t.ok(existsSync(createFiles(stage.home).archive(run.deployId)))
  t.ok(stage.deployer.hasRunning(project.id))
  t.match(stage.audits, [{ action: 'deployment.upload', actor: admin, projectId: project.id, target: run.deployId }])
})

t.test('leaves nothing behind if the upload or the project disappears', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const receive = async () =>
    stage.deployer.receive(Readable.from([await zipOf({ a: '1' })]), { limitBytes, signal: never })
  const gone = await receive()
  await rm(gone.path)
  await t.rejects(stage.deployer.deploy(gone, { projectId: project.id, env: {}, actor: admin }), { code: 'ENOENT' })

  const received = await receive()
  const deploying = stage.deployer.deploy(received, { projectId: project.id, env: {}, actor: admin })
  await stage.store.write(tx => {
    deleteDeploymentsOf(tx, project.id)
    deleteProject(tx, project.id)
  })
  await t.rejects(deploying, { code: 'not_found' })
  t.notOk(stage.deployer.hasRunning(project.id))
  t.strictSame(await readdir(stage.home.tmp), [])
  t.strictSame(await readdir(stage.home.deployments), [])
})

t.test('a transaction that deletes a project sees running deployments', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 9' })
  const pushing = stage.push(project, { a: '1' })
  const seen = await pushing.then(() => stage.store.write(() => stage.deployer.hasRunning(project.id)))
  t.equal(seen, true)
})

t.test('an error after the record is written does not fail the request', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const fault = new Error('the audit log is broken')
  stage.audits.push = () => {
    throw fault
  }
  const run = await stage.push(project, { a: '1' })
  t.equal((await run.finished).status, 'success')
  t.strictSame(stage.faults, [[deploySays.auditEntryMissing(run.deployId), fault]])
  t.ok(existsSync(createFiles(stage.home).archive(run.deployId)))
})
