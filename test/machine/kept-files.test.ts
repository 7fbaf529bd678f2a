import { linkSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { measureFiles, measureKept } from '../../lib/machine/kept-files.js'
import { occasion } from '../support/occasion.js'
import { openStage } from '../support/store.js'

t.test('counts a file with several names once, in total and in each project', async t => {
  const { directory, store } = await openStage(t)
  const home = { directory, deployments: join(directory, 'deployments') }
  mkdirSync(home.deployments)
  const { project, deployment } = occasion()
  await store.write(tx => {
    insertProject(tx, project)
    for (const id of ['dep_1', 'dep_2']) insertDeployment(tx, { ...deployment, id })
  })
  const path = (name: string): string => join(home.deployments, name)
  writeFileSync(path('dep_1.zip'), 'x'.repeat(1000))
  linkSync(path('dep_1.zip'), path('dep_2.zip'))
  writeFileSync(path('dep_unknown.zip'), 'x'.repeat(7))
  writeFileSync(path('dep_2.log'), 'x'.repeat(30))
  writeFileSync(path('dep_1.before.zip'), 'x'.repeat(50))
  const kept = await measureKept(store, home)
  t.match(kept, { archives: 1057, logs: 30 })
  t.equal(kept.database, statSync(join(directory, 'svc.db')).size + statSync(join(directory, 'svc.db.redo')).size)
  t.strictSame([...kept.projects], [[project.id, { archiveCount: 2, archiveBytes: 1050, logBytes: 30 }]])
})

t.test('counts a missing directory as empty', async t => {
  const { directory, store } = await openStage(t)
  t.match(await measureKept(store, { directory, deployments: join(directory, 'none') }), { archives: 0, logs: 0 })
  t.equal(await measureFiles(join(directory, 'none'), () => true), 0)
})
