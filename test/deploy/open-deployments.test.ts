import { rename } from 'node:fs/promises'
import t from 'tap'
import { createFiles } from '../../lib/deploy/files.js'
import { createOpenDeployments } from '../../lib/deploy/open-deployments.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { updateDeployment } from '../../lib/store/tables/deployments.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf } from '../support/held.js'
import { until } from '../support/until.js'

t.test('the next deployment finishes a revert that failed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2', 'b.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await rename(project.deployPath, `${project.deployPath}-away`)
  await stage.deployer.revert(run.deployId, admin)
  await rename(`${project.deployPath}-away`, project.deployPath)
  t.equal((await stage.deploy(project, { 'a.txt': '3' })).status, 'success')
  t.equal(await contentsOf(project, 'b.txt'), '1', 'the file before the reverted deployment')
  t.match(stage.row(run.deployId), { revertedAt: /Z$/, placed: null })
})

t.test('decides by the record', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const open = createOpenDeployments({ ...stage, files: createFiles(stage.home) })
  const { id } = await stage.deploy(project, { 'a.txt': '1' })
  const change = (patch: Partial<DeploymentRow>) => stage.store.write(tx => updateDeployment(tx, id, patch))
  t.equal(open.decide('dep_unknown'), 'revert', 'no record')
  t.equal(open.decide(id), 'settle', 'its files are in place')
  await change({ status: 'running', heldFor: 'check' })
  t.equal(open.decide(id), 'leave', 'its run decides')
  await change({ status: 'failed', heldFor: null, revertReason: 'check' })
  t.equal(open.decide(id), 'revert', 'it failed')
  await open.onReverted(id)
  t.match(stage.row(id), { placed: null, revertReason: 'check', revertedAt: /Z$/ })
  const { revertedAt } = stage.row(id)
  await open.onReverted(id)
  await open.onReverted('dep_unknown')
  t.equal(stage.row(id).revertedAt, revertedAt, 'again')
})
