import t from 'tap'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { findDeployment, insertDeployment, placeDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { createBroken } from '../../lib/machine/broken.js'
import { aDeployment, aProject, aStore } from '../store/stage.js'

t.test('shows for each project what failed, the last good deployment, and whether it is still live', async t => {
  const store = await aStore(t)
  const rows: Array<Partial<DeploymentRow>> = [
    { id: 'good', status: 'success' },
    { id: 'bad', status: 'failed', errorMessage: 'exit 3', message: 'ü' },
    { id: 'next', status: 'queued' },
    { id: 'after', status: 'queued' }
  ]
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'a', name: 'shop' }))
    for (const [n, row] of rows.entries())
      insertDeployment(tx, aDeployment({ projectId: 'a', startTime: `2026-01-0${n + 1}`, ...row }))
    placeDeployment(tx, 'good')
  })
  const broken = createBroken({ store, findDeployment: id => findDeployment(store, id) })
  const expected = {
    projectId: 'a',
    projectName: 'shop',
    projectEnv: 'production',
    since: '2026-01-02',
    isLastGoodLive: true,
    goingId: 'next',
    failed: { id: 'bad', status: 'failed', errorMessage: 'exit 3', message: 'ü' },
    lastGood: { id: 'good' }
  }
  t.match(broken.of('a'), expected)
  t.match(broken.list(5), { total: 1, items: [expected] })
  t.notMatch(JSON.stringify(broken.list(5)), 'echo hello', 'no script that a list does not show')
  await store.write(tx => placeDeployment(tx, 'bad'))
  t.match(broken.of('a'), { isLastGoodLive: false })
  t.equal(broken.of('none'), null)
})
