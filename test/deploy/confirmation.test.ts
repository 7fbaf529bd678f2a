import t from 'tap'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf } from '../support/held.js'
import { until } from '../support/until.js'

t.test('a deployment is settled when it is confirmed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const run = await stage.push(project, { 'a.txt': '1' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await until(() => stage.row(run.deployId).heldFor === 'confirm')
  const { holdUntil, status } = stage.row(run.deployId)
  t.equal(status, 'running')
  t.equal(holdUntil, stage.deployer.confirmUntil(run.deployId))
  const next = await stage.push(project, { 'a.txt': '2' })
  t.match(await stage.output(next.deployId), 'queued: 1 deployment of this project ahead')
  const row = await stage.deployer.confirm(run.deployId, admin)
  t.match(row, { status: 'success', placed: 1, heldFor: null, confirmSeconds: 60 })
  t.match(
    stage.audits.find(({ action }) => action === 'deployment.confirm'),
    { target: run.deployId, ok: true }
  )
  t.equal((await next.finished).status, 'success')
  await t.rejects(stage.deployer.confirm(run.deployId, admin), { code: 'not_waiting' })
  await t.rejects(stage.deployer.revert(run.deployId, admin), { code: 'not_waiting' })
  await t.rejects(stage.deployer.confirm('dep_unknown', admin), { code: 'not_found' })
})

t.test('an operator reverts a deployment that waits', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  const row = await stage.deployer.revert(run.deployId, admin)
  t.match(row, { status: 'failed', revertReason: 'operator', errorMessage: /^Reverted by admin; the earlier files/ })
  t.match(stage.audits.at(-1), { action: 'deployment.revert', ok: true })
  t.equal(await contentsOf(project), '1')
})
