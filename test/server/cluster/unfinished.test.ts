import t from 'tap'
import { refuseUnfinished } from '../../../lib/server/cluster/unfinished.js'
import { insertDeployment, updateDeployment } from '../../../lib/store/tables/deployments.js'
import { insertProject } from '../../../lib/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../../store/stage.js'

t.test('a deployment that has not finished is refused, and an undo journal as well', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_a' }))
    insertDeployment(tx, aDeployment({ id: 'dep_a', projectId: 'proj_a', status: 'queued' }))
  })
  t.throws(() => refuseUnfinished(store, []), { code: 'deployment_running', message: /dep_a has not finished/ })
  await store.write(tx => updateDeployment(tx, 'dep_a', { status: 'failed' }))
  refuseUnfinished(store, ['dep_a.zip', 'dep_a.log'])
  t.throws(() => refuseUnfinished(store, ['dep_b.undo']), { code: 'deployment_running', message: /dep_b/ })
})
