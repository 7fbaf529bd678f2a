import t from 'tap'
import type { DeploymentRow, RanScript } from '../../lib/model/deployment.js'
import { recentScripts } from '../../lib/projects/recent-scripts.js'

const ran = (step: RanScript['step'], script: string): RanScript => ({ step, script, source: 'client', async: false })
const row = (id: string, scripts: RanScript[]) => ({ id, scripts }) as DeploymentRow

t.test('returns the scripts of the newest deployment that ran any', async t => {
  const rows = [
    row('dep_3', []),
    row('dep_2', [ran('postDeploy', 'make restart')]),
    row('dep_1', [ran('preDeploy', 'old')])
  ]
  t.same(recentScripts(rows), { deployId: 'dep_2', preDeployScript: '', postDeployScript: 'make restart' })
  t.same(recentScripts([row('dep_1', [])]), { deployId: null, preDeployScript: '', postDeployScript: '' })
  t.same(recentScripts([]), { deployId: null, preDeployScript: '', postDeployScript: '' })
})
