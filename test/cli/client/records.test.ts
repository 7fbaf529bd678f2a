import t from 'tap'
import { completeDeployment } from '../../../lib/cli/client/records.js'
import { headline, starterWords } from '../../../lib/cli/terminal/origin-words.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'

const other = { id: 'dep_1', projectId: 'p', projectName: 'Shop', status: 'success', triggerSource: 'cli' }

t.test('completes the record of another server of the interface', async t => {
  const row = completeDeployment(other as unknown as ListedDeployment)
  t.match(row, { ...other, rollbackOf: null, message: null, provenance: null, env: '', hasArtifact: true })
  t.equal(headline(row), 'Shop: cli')
  t.equal(starterWords(row), 'cli')
  const has = (artifactPath: string | null): boolean =>
    completeDeployment({ ...other, artifactPath } as unknown as ListedDeployment).hasArtifact
  t.strictSame([has(null), has('deployments/dep_1.zip')], [false, true])
})

t.test('changes nothing that svc sends', async t => {
  const own = { ...other, rollbackOf: 'dep_0', message: 'm', provenance: null, env: 'staging', hasArtifact: false }
  t.strictSame(completeDeployment(own as unknown as ListedDeployment), own as unknown as ListedDeployment)
})
