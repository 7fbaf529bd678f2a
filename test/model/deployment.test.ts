import t from 'tap'
import { type DeploymentRow, listedDeployment } from '../../lib/model/deployment.js'

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
    t.notOk('backgroundFailed' in listedDeployment(other))
  }
})

t.test('names the archive as long as it is kept', async t => {
  const kept = row({ id: 'dep_a', hasArtifact: true, archiveBytes: 7 })
  t.match(listedDeployment(kept), { artifactPath: 'deployments/dep_a.zip', artifactSize: 7 })
  const removed = row({ id: 'dep_a', hasArtifact: false, archiveBytes: 7 })
  t.match(listedDeployment(removed), { artifactPath: null, artifactSize: null, archiveBytes: 7 })
})
