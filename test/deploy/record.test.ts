import t from 'tap'
import { endOf, eventOf, moveRecord, sendNotice } from '../../lib/deploy/record.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { deployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'

t.test('changes a status only as the table allows', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const row = await stage.deploy(project, { a: '1' })
  await t.rejects(moveRecord(stage, row.id, { to: 'running', cause: 'turn' }), {
    message: deploySays.noTransition('failed', 'running', 'turn')
  })
  t.equal(stage.row(row.id).status, 'failed')
  t.match(await moveRecord(stage, row.id, { to: 'success', cause: 'correction', patch: { errorMessage: null } }), {
    status: 'success',
    errorMessage: null
  })
  t.equal(await moveRecord(stage, 'dep_none', { to: 'failed', cause: 'end' }), undefined)
})

t.test('records the end time and the duration', async t => {
  const row = { startTime: '2030-01-01T00:00:00.000Z' } as DeploymentRow
  t.strictSame(
    endOf(row, { status: 'failed', cause: 'end', errorMessage: 'why' }, Date.parse('2030-01-01T00:01:01.500Z')),
    {
      status: 'failed',
      errorMessage: 'why',
      endTime: '2030-01-01T00:01:01.500Z',
      duration: '61.50s'
    }
  )
  t.equal(eventOf('success'), 'deploy_success')
  t.equal(eventOf('failed'), 'deploy_failure')
})

t.test('tolerates a failed notification, and skips a deleted project', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const row = await stage.deploy(project, { a: '1' })
  const notice = { trigger: 'manual', event: 'deploy_failure', errorMessage: null } as const
  const notify = (): void => {
    throw new Error('no network')
  }
  sendNotice({ ...stage, notify }, row, notice)
  t.equal(stage.faults.length, 1)
  sendNotice({ ...stage, notify }, { ...row, projectId: 'proj_none' }, notice)
  t.equal(stage.faults.length, 1)
})
