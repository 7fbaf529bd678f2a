import t from 'tap'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { listedDeployment } from '../../lib/model/deployment.js'

const failedStep = { name: 'postDeploy', status: 'failed', startedAt: '', endedAt: '' } as const
const script = { step: 'postDeploy', source: 'platform', script: 'false' } as const
const row = (of: Partial<DeploymentRow>): DeploymentRow =>
  ({ steps: [], scripts: [], ...of }) as unknown as DeploymentRow

t.test('marks a deployment whose script failed in the background, and no other', async t => {
  const background = row({ steps: [failedStep], scripts: [{ ...script, async: true }] })
  t.equal(listedDeployment(background).backgroundFailed, true)
  for (const other of [
    row({ steps: [failedStep], scripts: [{ ...script, async: false }] }),
    row({ steps: [{ ...failedStep, status: 'running' }], scripts: [{ ...script, async: true }] }),
    row({ steps: [failedStep], scripts: [{ ...script, step: 'preDeploy', async: true }] })
  ]) {
    t.equal(listedDeployment(other), other)
  }
})
