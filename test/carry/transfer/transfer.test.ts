import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { randomIds } from '../../../lib/base/digests.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { createTransfer } from '../../../lib/carry/transfer/transfer.js'
import { aProject } from '../../core/store/stage.js'

const actor = { name: 'admin', ip: '192.0.2.1' }

t.test('inspects the database, and refuses an unknown project or package', async t => {
  const directory = t.testdir({ tmp: {}, deployments: {} })
  const store = await openStore({ directory })
  t.teardown(() => store.close())
  await store.write(tx => insertProject(tx, aProject({ deployPath: join(directory, 'none') })))
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const audit = { within() {}, async record() {} }
  const needs = { store, home, clock: systemClock, ids: randomIds, version: '1.0.0', audit }
  const transfer = createTransfer(needs as never)
  const { projects, findings } = await transfer.inspect()
  t.same(
    projects.map(({ id }) => id),
    ['proj_a']
  )
  t.type(findings, Array)
  const all = { projects: null, artifacts: false, logs: false, recent: null, ignore: [], ignoreBuiltin: true, actor }
  t.type((await transfer.export(all)).write, 'function')
  await t.rejects(transfer.export({ ...all, projects: ['proj_x'] }), { code: 'not_found' })
  await t.rejects(transfer.import(join(directory, 'none.zip'), { actor } as never), { code: /./ })
})
