import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'
import { freePort } from '../../support/free-port.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'
import { stoppedServer, wordsFor } from './kills.js'

/* docs/fleet.md, "Backup, restore, upgrade": etcd is lost with all hubs. */

t.test('a hub is restored from its backup, with its node, on an empty etcd', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t)
  const cwd = t.testdir()
  const server = await stoppedServer(t, cwd)
  const { words, env: password } = wordsFor(etcd, cwd)
  const port = await freePort()
  const env = { ...password, SVC_HOME: server.home }
  const run = (home: string, ...command: string[]) => svc(command, { cwd, env: { ...env, SVC_HOME: home } })
  const hub = [...words, '--hub-name', 'h1', '--hub-url', `http://127.0.0.1:${port}`]
  const serve = [...words.slice(0, 2), '--port', String(port)]
  t.equal((await run(server.home, 'cluster', 'init', ...hub)).code, 0)

  const before = await startServeProcess(t, cwd, serve, env)
  const isConnected = async (): Promise<boolean> => {
    const { nodes } = await before.api<{ nodes: Array<{ isConnected: boolean }> }>('GET', '/api/nodes')
    return nodes.length === 1 && nodes[0]?.isConnected === true
  }
  await until(isConnected)
  await (await before.upload(server.project, { 'index.html': 'three' })).finished
  const records = await before.deployments(server.project.id)
  for (const [home, name] of [
    [server.home, 'hub.backup'],
    [join(server.home, 'node'), 'node.backup']
  ] as const) {
    const made = await run(home, 'backup', name)
    t.equal(made.code, 0, made.stderr)
  }
  await before.stop()

  renameSync(server.home, join(cwd, 'lost'))
  await etcd.ask('/v3/kv/deleterange', {
    key: Buffer.from('/svc/').toString('base64'),
    range_end: Buffer.from('/svc0').toString('base64')
  })
  t.match((await run(server.home, 'restore', 'hub.backup')).stderr, /./)
  const restored = await run(join(server.home, 'node'), 'restore', 'node.backup')
  t.equal(restored.code, 0, restored.stderr)
  t.ok(existsSync(join(server.home, 'cluster.key')))
  const begun = await run(server.home, 'cluster', 'init', ...hub)
  t.equal(begun.code, 0, begun.stderr)

  const after = await startServeProcess(t, cwd, serve, env)
  t.strictSame(
    (await after.deployments(server.project.id)).map(({ id }) => id),
    records.map(({ id }) => id)
  )
  await until(isConnected, { what: 'its node' })
  await (await after.upload(server.project, { 'index.html': 'four' })).finished
  t.equal(readFileSync(join(server.site, 'index.html'), 'utf8'), 'four')
})
