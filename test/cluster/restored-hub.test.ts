import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { startServe, type Serving } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { stoppedServer, wordsFor, type StoppedServer } from './kills.js'

/* docs/fleet.md, "Backup and restore": etcd is lost with all hubs. */

interface Restored {
  cwd: string
  server: StoppedServer
  hub: Serving
  /** Runs a command with another data directory. */
  run(home: string, ...command: string[]): ReturnType<typeof svc>
  /** Waits until the hub has one node, which is connected. */
  connected(): Promise<unknown>
}

/** Loses etcd and the machine of a hub, and restores the hub without its node. `node.backup` is the backup of the node. */
async function restored(t: Test): Promise<Restored> {
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

  const before = await startServe(t, cwd, serve, env)
  const isConnected = async (): Promise<boolean> => {
    const { nodes } = await before.api<{ nodes: Array<{ isConnected: boolean }> }>('GET', '/api/nodes')
    return nodes.length === 1 && nodes[0]?.isConnected === true
  }
  const connected = () => until(isConnected, { what: 'the node' })
  await connected()
  await (await before.upload(server.project, { 'index.html': 'three', 'old.html': 'old' })).finished
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
  t.ok(existsSync(join(server.home, 'cluster.key')))
  const begun = await run(server.home, 'cluster', 'init', ...hub)
  t.equal(begun.code, 0, begun.stderr)

  const after = await startServe(t, cwd, serve, env)
  t.strictSame(
    (await after.deployments(server.project.id)).map(({ id }) => id),
    records.map(({ id }) => id)
  )
  await after.warns(/does not have its key. Restore the backup of that directory/)
  return { cwd, server, hub: after, run, connected }
}

const contentOf = ({ server }: Restored, name: string): string => readFileSync(join(server.site, name), 'utf8')

t.test('a hub is restored from its backup on an empty etcd, and then its node', { skip: withoutEtcd() }, async t => {
  const stage = await restored(t)
  const { hub, server, run } = stage
  // A push waits for the node.
  const pushed = await hub.upload(server.project, { 'index.html': 'four' })
  t.equal(contentOf(stage, 'index.html'), 'three')
  const node = await run(join(server.home, 'node'), 'restore', 'node.backup')
  t.equal(node.code, 0, node.stderr)
  await stage.connected()
  await pushed.finished
  t.equal(contentOf(stage, 'index.html'), 'four')
  t.equal((await hub.deployments(server.project.id))[0]?.status, 'success')
})

t.test('a hub is restored without the backup of its node', { skip: withoutEtcd() }, async t => {
  const stage = await restored(t)
  const { cwd, hub, server } = stage
  const lost = await hub.upload(server.project, { 'index.html': 'lost' })
  for (const [method, action] of [
    ['POST', 'undo'],
    ['GET', 'verify']
  ] as const) {
    const refused = hub.api(method, `/api/projects/${server.project.id}/${action}`)
    await t.rejects(refused, /project_is_placed/, action)
  }
  const forgotten = await svc(['fleet', 'forget', 'h1', '--yes'], {
    cwd,
    env: { SVC_SERVER_URL: hub.url, SVC_TOKEN: hub.adminToken }
  })
  t.equal(forgotten.code, 0, forgotten.stderr)
  await lost.finished
  const record = (await hub.deployments(server.project.id)).find(({ id }) => id === lost.deployId)
  t.match(record, { status: 'failed' })
  t.equal(contentOf(stage, 'index.html'), 'three', 'its files are as they were')

  await stage.connected()
  const add = [{ node: 'h1', deployPath: server.site }]
  await hub.api('PATCH', `/api/projects/${server.project.id}/placements`, { add, remove: [] })
  await (await hub.upload(server.project, { 'index.html': 'four' })).finished
  t.equal(contentOf(stage, 'index.html'), 'four')
  t.equal(contentOf(stage, 'old.html'), 'old', 'files of releases that the new node does not know stay')
})
