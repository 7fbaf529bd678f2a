import t from 'tap'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../lib/base/errors.js'
import { createNodeDatabase, insertRow, refuseUnfinished, startOwnNode } from '../../lib/cluster/own-node.js'
import { matching } from '../support/sentences/matching.js'
import { until } from '../support/until.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { findHubDeployment } from '../../lib/core/store/tables/fleet.js'
import { readSettings, writeSetting } from '../../lib/core/store/tables/server.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { insertDeployment, updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../core/store/stage.js'

t.test('a node waits for a token, says each reason, and ends with its hub', async t => {
  const directory = t.testdir()
  const told: string[] = []
  let asked = 0
  const node = startOwnNode({
    directory,
    url: 'http://127.0.0.1:1',
    caFile: null,
    environment: { PATH: process.env['PATH'] },
    async enroll() {
      if (asked++ === 0) throw new Refusal('unavailable', 'no_leader', 'Nobody leads')
      throw new Refusal('conflict', 'name_taken', 'The name is used')
    },
    warn: line => void told.push(line)
  })
  await until(() => told.length === 2)
  t.match(told[0], /Cannot enroll the node of this hub yet: Nobody leads/)
  t.match(told[1], matching('"', join(directory, 'node'), '" does not have its key. Restore the backup'))
  await node.stop()
  t.equal(asked, 2)
  t.ok(existsSync(join(directory, 'node')))
})

t.test('the agent gets the projects and the deployments, and nothing that belongs to the hub', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
  ])
  await stage.client.post('/api/tokens', { name: 'reader', role: 'viewer' })
  await stage.server.stop({ wait: true })
  const from = await openStore({ directory: stage.home.directory })
  t.teardown(() => from.close())
  await from.write(tx => {
    writeSetting(tx, 'keep_archives', '7')
    writeSetting(tx, 'webhook_url', 'https://hooks.example.com')
  })
  const directory = join(stage.home.directory, 'node')
  mkdirSync(directory)
  await createNodeDatabase(directory, from)
  const node = await openStore({ directory })
  t.teardown(() => node.close())
  for (const table of ['projects', 'deployments']) {
    t.strictSame(node.all(`SELECT * FROM ${table}`), from.all(`SELECT * FROM ${table}`), table)
  }
  for (const table of ['tokens', 'sessions', 'audit']) t.strictSame(node.all(`SELECT * FROM ${table}`), [], table)
  const id = String(from.get('SELECT id FROM deployments')?.['id'])
  t.match(findHubDeployment(node, id), { deployId: id })
  t.strictSame(readSettings(node), { keep_archives: '7' })
  await node.write(tx => insertRow(tx, 'settings', { key: 'keep_archives', value: '8' }))
  t.equal(readSettings(node)['keep_archives'], '8')
})

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
