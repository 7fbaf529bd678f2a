import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createNodeDatabase, insertRow } from '../../../lib/server/cluster/node-database.js'
import { openStore } from '../../../lib/store/durable-store.js'
import { findHubDeployment } from '../../../lib/store/tables/duties.js'
import { readSettings, writeSetting } from '../../../lib/store/tables/server.js'
import { startServer } from '../../support/server.js'
import { zipOf } from '../../support/zip.js'

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
