import t from 'tap'
import { findQueuedRelease, putQueuedRelease } from '../../../lib/store/tables/queued-releases.js'
import { insertDeployment } from '../../../lib/store/tables/deployments.js'
import { insertProject } from '../../../lib/store/tables/projects.js'
import { aDeployment, aProject } from '../../store/stage.js'
import { openStage } from '../../support/store.js'

t.test('keeps what was sent for queued deployments only', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    insertProject(tx, aProject({ tagIds: [] }))
    insertDeployment(tx, aDeployment({ id: 'dep_a', status: 'queued' }))
    insertDeployment(tx, aDeployment({ id: 'dep_b', status: 'running' }))
    putQueuedRelease(tx, 'dep_a', { sealed: 'text', rollout: { canary: 2 }, role: 'deployer' })
    putQueuedRelease(tx, 'dep_b', { sealed: null, rollout: {}, role: null })
  })
  t.strictSame(findQueuedRelease(store, 'dep_a'), { sealed: 'text', rollout: { canary: 2 }, role: 'deployer' })
  t.strictSame(findQueuedRelease(store, 'dep_b'), { sealed: null, rollout: {}, role: null })
  t.equal(findQueuedRelease(store, 'dep_c'), undefined)
  await store.write(tx => {
    insertDeployment(tx, aDeployment({ id: 'dep_c', status: 'queued' }))
    putQueuedRelease(tx, 'dep_c', { sealed: null, rollout: {}, role: null })
  })
  t.equal(findQueuedRelease(store, 'dep_b'), undefined)
  t.ok(findQueuedRelease(store, 'dep_a'))
})
