import t from 'tap'
import { deploymentBefore, revert, revertResult, swapResult, untilFinished } from '../../../lib/fleet/agent/swap.js'
import { deployStage, never } from '../../support/deploy-stage.js'

t.test('the record of a deployment says what became of a release', async t => {
  const stage = await deployStage(t)
  const needs = { store: stage.store, deployer: stage.deployer, clock: stage.clock }
  const project = await stage.addProject()
  const first = await stage.deploy(project, { a: '1' }, { deployId: 'dep_first' })
  t.equal(first.id, 'dep_first')
  t.match(await swapResult(needs, first), { answer: 'good', error: null, output: /dep_first/ })
  await stage.change(project, { postDeployScript: 'exit 1' })
  const stuck = await stage.deploy(project, { a: '2' })
  t.match(await swapResult(needs, stuck), { answer: 'stuck', failedStep: 'postDeploy' })
  await stage.change(project, { postDeployScript: '', preDeployScript: 'exit 1' })
  const failed = await stage.deploy(project, { a: '3' })
  t.match(await swapResult(needs, failed), { answer: 'failed', failedStep: 'preDeploy' })
  await t.rejects(swapResult(needs, { ...failed, status: 'running' }), { code: 'shutting_down' })

  t.equal(deploymentBefore(stage.store, project.id, stuck.id), first.id)
  t.equal(deploymentBefore(stage.store, project.id, first.id), null)
  t.equal(await untilFinished(needs, 'dep_none', never), null)
  t.equal((await untilFinished(needs, stuck.id, never))?.status, 'failed')
  t.match(await revertResult(needs, failed, stuck.id), { answer: 'stuck' })
  t.match(await revertResult(needs, failed, first.id), { answer: 'reverted' })
  t.match(await revert(needs, { projectId: project.id, swapId: first.id, undoId: 'dep_undo' }), {
    answer: 'stuck',
    error: /was made on the node after it/
  })
  await stage.change(project, { preDeployScript: '' })
  t.match(await revert(needs, { projectId: project.id, swapId: stuck.id, undoId: 'dep_undo' }), { answer: 'reverted' })
  t.match(stage.row('dep_undo'), { undoOf: stuck.id, status: 'success' })
})
