import t from 'tap'
import { endBackground, leaveRunning } from '../../../lib/deploy/scripts/background.js'
import { listedDeployment, type DeploymentStep } from '../../../lib/model/deployment.js'
import { insertDeployment, insertScriptProcess, listScriptProcesses } from '../../../lib/store/tables/deployments.js'
import { deployStage, type DeployStage } from '../../support/deploy-stage.js'
import { aDeployment } from '../../store/stage.js'

const at = '2030-01-01T00:00:00.000Z'
const stepOf = (name: DeploymentStep['name']): DeploymentStep => ({
  name,
  status: 'success',
  startedAt: at,
  endedAt: at
})

/** Creates a finished deployment whose background script still runs. */
async function withScript(stage: DeployStage): Promise<string> {
  const project = await stage.addProject()
  const steps = [stepOf('extract'), { ...stepOf('postDeploy'), exitCode: null }, stepOf('cleanup')]
  leaveRunning(steps)
  const scripts = [{ step: 'postDeploy', source: 'platform', script: 'true', async: true } as const]
  const row = aDeployment({ id: 'dep_b', projectId: project.id, steps, scripts })
  await stage.store.write(tx => insertDeployment(tx, row))
  return row.id
}

t.test('records a failure in the step, audits it and notifies', async t => {
  const stage = await deployStage(t)
  const id = await withScript(stage)
  t.match(stage.row(id).steps, [{ status: 'success' }, { status: 'running', endedAt: null }, { status: 'success' }])
  t.notOk(listedDeployment(stage.row(id)).backgroundFailed, 'not yet')
  await endBackground(stage, id, { complaint: 'It was ended', exitCode: null })
  t.match(stage.row(id), {
    status: 'success',
    errorMessage: null,
    steps: [{ endedAt: at }, { status: 'failed', endedAt: String, exitCode: null }, { endedAt: at }]
  })
  t.ok(listedDeployment(stage.row(id)).backgroundFailed)
  t.match(stage.audits.at(-1), { action: 'deploy.post_deploy_failed', target: id, detail: 'It was ended', ok: false })
  t.match(stage.notices, [{ trigger: 'async_post_deploy', event: 'deploy_failure', errorMessage: 'It was ended' }])
  await endBackground(stage, id, { complaint: 'Again', exitCode: 1 })
  t.equal(stage.notices.length, 1, 'the end is reported once')
})

t.test('does not notify of a success', async t => {
  const stage = await deployStage(t)
  const id = await withScript(stage)
  await endBackground(stage, id, { complaint: null, exitCode: 0 })
  t.match(stage.row(id).steps[1], { status: 'success', exitCode: 0, endedAt: String })
  t.notOk(listedDeployment(stage.row(id)).backgroundFailed)
  t.equal(stage.notices.length, 0)
})

t.test('ignores a deleted record, and notifies even if the end cannot be recorded', async t => {
  const stage = await deployStage(t)
  await endBackground(stage, 'dep_none', { complaint: 'no', exitCode: 1 })
  t.equal(stage.notices.length, 0)
  const id = await withScript(stage)
  const failing = {
    ...stage,
    store: {
      ...stage.store,
      write: async () => {
        throw new Error('full')
      }
    }
  }
  await endBackground(failing, id, { complaint: 'no', exitCode: 1 })
  t.equal(stage.notices.length, 1)
  t.equal(stage.faults.length, 1)
})

t.test('a start finds the processes until the end is recorded', async t => {
  const stage = await deployStage(t)
  const id = await withScript(stage)
  const process = { deployId: id, step: 'postDeploy', pid: 1, startedAt: '1', bootId: 'a', home: 'b' } as const
  await stage.store.write(tx => insertScriptProcess(tx, process))
  t.match(listScriptProcesses(stage.store), [process])
  await endBackground(stage, id, { complaint: null, exitCode: 0 })
  t.strictSame(listScriptProcesses(stage.store), [])
})
