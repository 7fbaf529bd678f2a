import t, { type Test } from 'tap'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../lib/base/clock.js'
import { locateHome } from '../../lib/base/config/home.js'
import { type ClusterFile, writeClusterFile } from '../../lib/base/config/cluster-file.js'
import { leaveCluster, takeBack, forgetHub } from '../../lib/cluster/membership.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { startAgentProcess } from '../support/agent-process.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { testKey } from '../support/hubs.js'
import { createMemoryCluster } from '../support/memory-cluster.js'
import { type Serving, startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertHubDeployment, insertNode, insertPlacement } from '../../lib/core/store/tables/fleet.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aNode } from '../support/fleet-stage.js'
import { aDeployment, aProject } from '../core/store/stage.js'
import { copyOf, killed, stepsOf, stoppedServer, type StoppedServer, tokenOf, wasKilled, wordsFor } from './kills.js'
import { randomBytes } from 'node:crypto'
import { createEtcdClient } from '../../lib/cluster/etcd/client.js'
import { EtcdConnection } from '../../lib/cluster/etcd/connection.js'
import { beginHistory } from '../../lib/cluster/history.js'
import { createHubList } from '../../lib/cluster/hub-list.js'
import { createSealing, keysOf } from '../../lib/cluster/sealing.js'
import { ownHub } from '../support/hub-keys.js'

const skip = withoutEtcd()

t.test('a kill at any step leaves the hub, or the server alone, and the command continues', { skip }, async t => {
  const etcd = await anEtcd(t)
  const cwd = t.testdir()
  const server = await stoppedServer(t, cwd)
  const { words, env } = wordsFor(etcd, cwd)
  const hub = copyOf(server.home, 'hub')
  const init = ['cluster', 'init', ...words, '--hub-name', 'h1', '--hub-url', 'https://h1']
  t.equal((await svc(init, { cwd, env: { ...env, SVC_HOME: hub } })).code, 0)
  const leave = (home: string, n: number) => killed(n, ['cluster', 'leave'], { cwd, env: { ...env, SVC_HOME: home } })
  const key = Buffer.from('/svc/svc/hubs/h1').toString('base64')
  const { kvs } = (await etcd.ask('/v3/kv/range', { key })) as { kvs: [{ value: string }] }
  /** Each copy is that hub: it is in the list until it has left. */
  const enter = () => etcd.ask('/v3/kv/put', { key, value: kvs[0].value })
  const whole = await leave(copyOf(hub, '0'), 0)
  t.equal(whole.code, 0, whole.stderr)
  t.notMatch(whole.stderr, /not synced/, 'every file is on the disk before it replaces another')
  const outcomes = new Set<string>()
  for (const step of stepsOf(whole)) {
    const home = copyOf(hub, String(step))
    await enter()
    wasKilled(t, await leave(home, step), { step, whole })
    const hasLeft =
      !existsSync(join(home, 'cluster.json')) ||
      ['.restored', '.restore-arriving'].some(name => existsSync(join(home, name)))
    outcomes.add(hasLeft ? 'alone' : 'hub')
    if (!hasLeft) await isHub(t, home, server)
    const again = await leave(home, 0)
    if (again.code !== 0) {
      t.match(again.stderr, /is not a hub of a cluster/, 'only if nothing was left to finish')
      t.notOk(existsSync(join(home, 'cluster.json')))
    }
    await isAlone(t, home, server)
    const asides = readdirSync(cwd).filter(name => name.startsWith(`server-home-hub-${step}.before-`))
    t.equal(asides.length, 1, `step ${step}: one directory has the files as they were`)
    await isHub(t, join(cwd, asides[0] as string), server)
    t.strictSame(
      readdirSync(home).filter(name => /^\.(cluster|restore)/.test(name)),
      [],
      'nothing is left over'
    )
  }
  t.strictSame([...outcomes].sort(), ['alone', 'hub'])
})

async function isHub(t: Test, home: string, server: StoppedServer): Promise<void> {
  t.ok(existsSync(join(home, 'cluster.key')) && existsSync(join(home, 'node/agent.json')))
  await hasDeployments(t, home, server)
  await hasDeployments(t, join(home, 'node'), server)
}

async function isAlone(t: Test, home: string, server: StoppedServer): Promise<void> {
  t.notOk(['cluster.json', 'cluster.key', 'node'].some(name => existsSync(join(home, name))))
  t.equal(tokenOf(home), tokenOf(server.home))
  await hasDeployments(t, home, server)
  const store = await openStore({ directory: home })
  for (const table of ['placements', 'nodes', 'clusterSecrets', 'blobCopies'])
    t.strictSame(store.all(`SELECT * FROM ${table}`), [], table)
  t.match(store.all('SELECT deployPath FROM projects'), [{ deployPath: server.site }])
  await store.close()
}

async function hasDeployments(t: Test, home: string, { deployments }: StoppedServer): Promise<void> {
  const store = await openStore({ directory: home })
  t.equal(store.all('SELECT id FROM deployments WHERE placed IS NOT NULL').length, deployments.length)
  await store.close()
  for (const { id } of deployments) t.ok(existsSync(join(home, `deployments/${id}.zip`)), `${id} in ${home}`)
}

t.test('a hub leaves the others, its node stays, and the last hub takes back what its node did', { skip }, async t => {
  const etcd = await anEtcd(t)
  const cwd = t.testdir()
  const server = await stoppedServer(t, cwd)
  const { words, env } = wordsFor(etcd, cwd)
  const ports = [await freePort(), await freePort()]
  const homes = [server.home, join(cwd, 'second')] as const
  const envOf = (at: 0 | 1) => ({ ...env, SVC_HOME: homes[at] })
  const run = (at: 0 | 1, ...command: string[]) => svc(command, { cwd, env: envOf(at) })
  const urls = ports.map(port => `http://127.0.0.1:${port}`)
  const start = (at: 0 | 1) => startServe(t, cwd, [...words.slice(0, 2), '--port', String(ports[at])], envOf(at))
  const hub = (at: 0 | 1) => [...words, '--hub-name', `h${at + 1}`, '--hub-url', urls[at] as string]

  t.equal((await run(0, 'cluster', 'init', ...hub(0))).code, 0)
  const first = await start(0)
  t.equal((await run(1, 'cluster', 'join', '--key-file', join(homes[0], 'cluster.key'), ...hub(1))).code, 0)
  const second = await start(1)
  await until(async () => (await connected(first)).length === 2)
  const upload = await second.upload(server.project, { 'index.html': 'three' })
  await upload.finished
  t.equal(readFileSync(join(server.site, 'index.html'), 'utf8'), 'three')

  t.match((await run(0, 'cluster', 'forget', 'h2')).stderr, /was seen in the last minute.*svc cluster leave/s)
  await second.stop()
  const left = await run(1, 'cluster', 'leave', '--json')
  t.equal(left.code, 0, left.stderr)
  const { outcome, aside } = JSON.parse(left.stdout) as { outcome: string; aside: string }
  t.equal(outcome, 'left')
  t.ok(existsSync(join(aside, `deployments/${upload.deployId}.zip`)), 'its files are kept')
  const status = await run(0, 'cluster', 'status', '--json')
  t.match(JSON.parse(status.stdout), { hubs: [{ name: 'h1' }] })
  t.equal((JSON.parse(status.stdout) as { hubs: object[] }).hubs.length, 1)
  await until(async () => (await connected(first)).length === 1)
  const agent = await startAgentProcess(t, cwd, [], { env: { SVC_HOME: join(aside, 'node') } })
  await until(async () => (await connected(first)).includes('h2'), { what: 'the node of the hub that left' })
  await agent.stop()

  // With one hub in the cluster, one copy is enough again.
  await (await first.upload(server.project, { 'index.html': 'four' })).finished
  const records = await first.deployments(server.project.id)
  await first.stop()
  t.equal((await run(0, 'cluster', 'leave')).code, 0)
  const alone = await startServe(t, cwd)
  t.match(
    (await alone.deployments(server.project.id)).map(({ id, status }) => ({ id, status })),
    records.map(({ id }) => ({ id, status: 'success' }))
  )
  const verified = await alone.api<{ changes?: object[] }>('GET', `/api/projects/${server.project.id}/drift`)
  t.strictSame(verified.changes ?? [], [], 'the manifest of the node is that of the target')
  // An undo can be undone.
  for (const before of ['three', 'four']) {
    await alone.api('POST', `/api/projects/${server.project.id}/undo`, {})
    await until(() => readFileSync(join(server.site, 'index.html'), 'utf8') === before, { what: before })
    await until(async () => (await alone.deployments(server.project.id))[0]?.status === 'success')
  }
})

async function connected(hub: Serving): Promise<string[]> {
  const { nodes } = await hub.api<{ nodes: Array<{ isConnected: boolean; name: string }> }>('GET', '/api/nodes')
  return nodes.filter(({ isConnected }) => isConnected).map(({ name }) => name)
}

t.test('a hub does not leave with the only copy, nor if no other one runs', async t => {
  const directory = t.testdir()
  const cluster = createMemoryCluster()
  const leave = async (name: string, force = false) => {
    const home = locateHome({ SVC_HOME: join(directory, name) })
    const left = await leaveCluster({
      home,
      force,
      clock: systemClock,
      warn: () => {},
      info: () => {},
      optionsOf: async () => ({
        name: 'test',
        etcd: { endpoints: [] },
        hub: { name, url: `http://${name}` },
        key: testKey,
        openStore: cluster.open,
        allowsHttp: false,
        hasNode: false
      })
    })
    return left.outcome
  }
  const file = { cluster: 'test', hub: { name: 'h2', url: 'http://h2' } } as ClusterFile
  for (const name of ['h1', 'h2']) {
    mkdirSync(join(directory, name, 'deployments'), { recursive: true })
    const store = await openStore({ directory: join(directory, name) })
    await store.write(tx => tx.run("INSERT INTO blobCopies (deployId, hub) VALUES ('dep_a', 'h2')"))
    await store.close()
  }
  const first = await cluster.open({ directory: join(directory, 'h1'), hub: { name: 'h1', url: 'http://h1' } } as never)
  t.teardown(() => first.close())
  await writeClusterFile(join(directory, 'h2'), file)
  writeFileSync(join(directory, 'h2', 'config.json'), '{}')
  cluster.lead('h2')
  await t.rejects(leave('h2'), { code: 'no_other_hub' })
  cluster.lead('h1')
  await t.rejects(leave('h2'), { code: 'only_copy' })
  t.ok(existsSync(join(directory, 'h2', 'cluster.json')), 'nothing has changed')
  t.equal(await leave('h2', true), 'left')
  t.notOk(existsSync(join(directory, 'h2', 'config.json')))
  await t.rejects(leave('h2'), { code: 'no_cluster' })
})

const id = (letter: string): string => `dep_${letter.repeat(16)}`

t.test('the node gives its places, manifests and images back under the ids of the hub', async t => {
  const directory = t.testdir()
  const homes = ['server', 'node'].map(name => locateHome({ SVC_HOME: join(directory, name) }))
  const [target, nodeHome] = homes as [(typeof homes)[0], (typeof homes)[0]]
  for (const { deployments } of homes) mkdirSync(deployments, { recursive: true })
  const database = await openStore({ directory: target.directory })
  t.teardown(() => database.close())
  const node = await openStore({ directory: nodeHome.directory })
  const projectId = 'proj_a'
  await database.write(tx => {
    insertProject(tx, aProject({ id: projectId }))
    insertNode(tx, aNode('a', { name: 'h1' }))
    const placement = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
    insertPlacement(tx, { ...placement, projectId, nodeId: aNode('a').id, deployPath: '/srv/a' })
    for (const letter of ['a', 'b']) insertDeployment(tx, aDeployment({ id: id(letter), projectId }))
    tx.run('UPDATE deployments SET placed = 1 WHERE id = ?', id('b'))
  })
  // The node tried the second one twice, and was pushed to on its own.
  await node.write(tx => {
    insertProject(tx, aProject({ id: projectId }))
    for (const [letter, hubLetter, from] of [
      ['c', 'a', '[]'],
      ['d', 'b', '[]'],
      ['e', 'b', JSON.stringify([id('c'), 'before'])],
      ['f', null, JSON.stringify([id('e')])]
    ] as const) {
      insertDeployment(tx, aDeployment({ id: id(letter), projectId }))
      if (hubLetter !== null) insertHubDeployment(tx, { id: id(letter), projectId, deployId: id(hubLetter) })
      const order = 'c-ef'.indexOf(letter)
      if (order >= 0) tx.run('UPDATE deployments SET placed = ?, beforeFrom = ? WHERE id = ?', order, from, id(letter))
    }
    // A project that is not placed on this node any more, and that the hub may not know.
    insertProject(tx, aProject({ id: 'proj_b' }))
    insertDeployment(tx, aDeployment({ id: id('z'), projectId: 'proj_b' }))
  })
  await node.close()
  const keptIn = (letter: string): string => `{"path":"a","before":{"kept":"archive:${id(letter)}"}}\n`
  writeFileSync(join(nodeHome.deployments, `${id('e')}.manifest`), keptIn('c'))
  writeFileSync(join(nodeHome.deployments, `${id('e')}.before.zip`), 'images')
  writeFileSync(join(nodeHome.deployments, `${id('e')}.zip`), 'of the node')
  writeFileSync(join(target.deployments, `${id('b')}.zip`), 'of the hub')
  writeFileSync(join(nodeHome.deployments, `${id('f')}.manifest`), keptIn('e'))

  await takeBack({ database, nodeHome, target, hub: 'h1' })
  const rows = database.all('SELECT id, placed, beforeFrom FROM deployments ORDER BY id')
  t.match(rows, [
    { id: id('a'), placed: 0, beforeFrom: '[]' },
    { id: id('b'), placed: 2, beforeFrom: JSON.stringify([id('a'), 'before']) },
    { id: id('d'), placed: null },
    { id: id('f'), placed: 3, beforeFrom: JSON.stringify([id('b')]) }
  ])
  const textOf = (name: string): string => readFileSync(join(target.deployments, name), 'utf8')
  t.equal(textOf(`${id('b')}.manifest`), keptIn('a'))
  t.equal(textOf(`${id('b')}.before.zip`), 'images')
  t.equal(textOf(`${id('b')}.zip`), 'of the hub')
  t.equal(textOf(`${id('f')}.manifest`), keptIn('b'))

  writeFileSync(join(nodeHome.deployments, `${id('g')}.undo`), '')
  await t.rejects(takeBack({ database, nodeHome, target, hub: 'h1' }), { code: 'deployment_running' })
})

t.test('a hub is forgotten if it is gone, and refused if it runs', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t)
  const clusterKey = randomBytes(32)
  const options = { etcd: etcd.options, cluster: 'main', clusterKey, hub: { name: 'h1', url: 'http://h1' } }
  await t.rejects(forgetHub(options, 'h2'), { code: 'cluster_missing' })
  const connection = new EtcdConnection(etcd.options)
  t.teardown(() => connection.close())
  const client = createEtcdClient(connection)
  const [keys, sealing, history] = [keysOf('main'), createSealing(clusterKey), 'a']
  await beginHistory({ client, keys, sealing }, { id: history, after: 0 })
  const list = createHubList({ client, keys, sealing, history })
  const announce = (name: string, ageMs: number) => {
    const seenAt = new Date(Date.now() - ageMs).toISOString()
    return list.register({ ...ownHub({ name, url: `http://${name}` }), applied: 1, schema: 1, seenAt })
  }
  await announce('h1', 0)
  await announce('h2', 120_000)
  await announce('h3', 120_000)
  const leader = Buffer.from(JSON.stringify({ name: 'h3', url: 'http://h3' }))
  const value = sealing.seal(leader, { key: keys.leader, history })
  await client.transact({ when: [], then: [{ put: keys.leader, value }] })
  await t.rejects(forgetHub(options, 'h1'), { code: 'hub_running', message: /last minute/ })
  await t.rejects(forgetHub(options, 'h3'), { code: 'hub_running', message: /leader/ })
  await t.rejects(forgetHub(options, 'h9'), { code: 'hub_unknown', message: /"h1", "h2", "h3"/ })
  await forgetHub(options, 'h2')
  t.strictSame(
    (await list.list()).map(({ name }) => name),
    ['h1', 'h3']
  )
  const wrong = { ...options, etcd: { ...etcd.options, password: 'wrong' } }
  await t.rejects(forgetHub(wrong, 'h2'), { code: 'etcd_refused', message: /Check the user and the password/ })
})
