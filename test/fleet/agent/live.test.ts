import t from 'tap'
import { createLive } from '../../../lib/fleet/agent/live.js'
import { insertHubDeployment } from '../../../lib/store/tables/duties.js'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { deployStage } from '../../support/deploy-stage.js'

t.test('what is in place is named after the deployment of the hub', async t => {
  const stage = await deployStage(t)
  const { store, deployer } = stage
  const live = createLive({ store, deployer })
  const { id, deployPath } = await stage.addProject()
  t.strictSame(live.of(id), { projectId: id, liveDeployId: null, liveTree: null, isDrifted: false })
  const project = { ...(await stage.addProject({ id: 'proj_other' })), id, deployPath }
  const row = await stage.deploy(project, { a: '1' })
  t.match(live.of(id), { liveDeployId: null, liveTree: row.treeSha256, isDrifted: true }, 'a push to the node itself')
  await store.write(tx => insertHubDeployment(tx, { id: row.id, projectId: id, deployId: 'dep_hub' }))
  t.match(live.of(id), { liveDeployId: 'dep_hub', isDrifted: false })

  const { signal } = new AbortController()
  t.equal(await live.search(id, signal), false)
  appendFileSync(join(deployPath, 'a'), 'edited')
  t.equal(await live.search(id, signal), true)
  t.match(live.of(id), { liveDeployId: 'dep_hub', isDrifted: true })
  t.equal(await live.search(id, signal), false, 'it was known')
})
