import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf, leftIn, stepsOf } from '../support/held.js'
import { until } from '../support/until.js'

t.test('a stopping server leaves a deployment open, and the next start continues it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  t.match(stage.row(run.deployId), { status: 'running', heldFor: 'confirm' })
  const restarted = await stage.restart()
  const { deployId } = run
  await until(() => restarted.deployer.confirmUntil(deployId) !== null)
  t.ok(
    Math.abs(
      Date.parse(restarted.deployer.confirmUntil(deployId) as string) -
        Date.parse(restarted.row(deployId).holdUntil as string)
    ) < 50
  )
  const row = await restarted.deployer.confirm(deployId, admin)
  t.match(row, { status: 'success', placed: 2 })
  t.strictSame(stepsOf(restarted, deployId), [
    'store success',
    'target success',
    'preDeploy skipped',
    'extract success',
    'postDeploy skipped',
    'confirm success',
    'cleanup success'
  ])
  t.equal(await contentsOf(project), '2')
  t.strictSame(await leftIn(restarted, project), [])
  t.strictSame(restarted.faults, [])
})

t.test('a start puts a deployment back whose window has ended', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'echo "mode $SVC_DEPLOY_MODE"' })
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 1 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  await appendFile(join(project.deployPath, 'a.txt'), ' edited')
  await until(() => Date.now() > Date.parse(stage.row(run.deployId).holdUntil as string))
  const restarted = await stage.restart()
  await until(() => restarted.row(run.deployId).status === 'failed')
  t.match(restarted.row(run.deployId), { revertReason: 'confirm', revertedAt: /Z$/, placed: null })
  t.match(await restarted.output(run.deployId), 'mode revert')
  t.equal(await contentsOf(project), '1')
  t.equal(await contentsOf(project, `.svc-displaced-${run.deployId}/a.txt`), '2 edited')
})
