import t from 'tap'
import { existsSync, readdirSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { Refusal } from '../../lib/base/errors.js'
import { createFiles } from '../../lib/deploy/files.js'
import { countDeployments, deleteDeploymentsOf } from '../../lib/core/store/tables/deployments.js'
import { deleteProject } from '../../lib/core/store/tables/projects.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zips.js'

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

t.test('nobody changes anything who has lost the right while the server computed', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const project = await stage.addProject()
  const other = await stage.addProject({ policy: { promoteFrom: { projectId: project.id, soakMinutes: 0 } } })
  const first = await stage.deploy(project, { a: '1' })
  const { id } = await stage.deploy(project, { a: '2' })
  await rm(join(project.deployPath, 'a'))
  const held = await stage.push(await stage.addProject(), { b: '1' }, { confirmSeconds: 60 })
  await until(() => deployer.confirmUntil(held.deployId) !== null)
  const lost = new Refusal('unauthorized', 'token_revoked', 'Revoked')
  const checkAgain = () => {
    throw lost
  }
  const actor = { name: 'token:ci', ip: null, checkAgain }
  const maintenance = { projectId: other.id, actor, force: false }
  const seen = () => [stage.audits.length, countDeployments(stage.store), readdirSync(stage.home.deployments)]
  const before = seen()
  const doors: Record<string, () => Promise<unknown>> = {
    push: () => stage.push(project, { a: '1' }, { actor }),
    rollback: () => deployer.rollback(first.id, { actor }),
    exact: () => deployer.rollback(first.id, { actor, mode: 'exact' }),
    undo: () => deployer.undo(project.id, { actor, force: false }),
    repair: () => deployer.repair(project.id, { actor, signal: never }),
    promote: () => deployer.promote(other.id, { actor, from: id }),
    confirm: () => deployer.confirm(held.deployId, actor),
    mark: () => deployer.mark(id, 'failed', { actor }),
    deleteArchive: () => deployer.deleteArchive(id, { actor, force: true }),
    maintenance: () => deployer.maintenance.on({ ...maintenance, reason: null })
  }
  for (const [door, go] of Object.entries(doors)) await t.rejects(go(), lost, door)
  t.same(seen(), before)
  await deployer.maintenance.on({ ...maintenance, actor: admin, reason: null })
  await t.rejects(deployer.maintenance.off({ ...maintenance, mayEndOthers: true }), lost)
  t.ok(deployer.maintenance.of(other.id))
})

t.test('a transaction that deletes a project sees running deployments', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 9' })
  const pushing = stage.push(project, { a: '1' })
  const seen = await pushing.then(() => stage.store.write(() => stage.deployer.hasRunning(project.id)))
  t.equal(seen, true)
})

t.test('what cannot be audited is not deployed, and leaves nothing', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const fault = new Error('the audit log is broken')
  stage.audits.push = () => {
    throw fault
  }
  await t.rejects(stage.push(project, { a: '1' }), fault)
  t.equal(countDeployments(stage.store), 0)
  t.strictSame(readdirSync(stage.home.deployments), [])
})
