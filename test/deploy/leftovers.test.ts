import t from 'tap'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { lookForLeftovers } from '../../lib/deploy/leftovers.js'
import { insertDeployment, updateDeployment } from '../../lib/store/tables/deployments.js'
import { deployStage } from '../support/deploy-stage.js'
import { aDeployment } from '../store/stage.js'

t.test('finds a journal, or a record of a running deployment', async t => {
  const stage = await deployStage(t)
  const { store, home } = stage
  const { id: projectId } = await stage.addProject()
  const isThere = (): Promise<boolean> => lookForLeftovers(home.deployments)(store)
  t.equal(await isThere(), false)
  const journal = join(home.deployments, 'dep_x.undo')
  writeFileSync(journal, '')
  t.equal(await isThere(), true)
  rmSync(journal)
  for (const status of ['queued', 'running'] as const) {
    await store.write(tx => insertDeployment(tx, aDeployment({ id: `dep_${status}`, projectId, status })))
    t.equal(await isThere(), true, status)
    await store.write(tx => updateDeployment(tx, `dep_${status}`, { status: 'failed' }))
    t.equal(await isThere(), false)
  }
  t.equal(await lookForLeftovers(join(home.deployments, 'none'))(store), false, 'a first start')
})
