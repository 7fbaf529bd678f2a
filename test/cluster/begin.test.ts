import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { finishRestore } from '../../lib/carry/backup/place.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { findSecret, listPlacements } from '../../lib/core/store/tables/fleet.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { copyOf, killed, stepsOf, stoppedServer, tokenOf, wasKilled, wordsFor, type StoppedServer } from './kills.js'

t.test('a server moves into a cluster and back, and nothing is lost', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t)
  const cwd = t.testdir()
  const [home, site] = [join(cwd, 'server-home'), join(cwd, 'site')]
  const env = { SVC_HOME: home, SVC_ETCD_PASSWORD: etcd.options.password as string }
  const run = (words: string[]) => svc(words, { cwd, env })

  const before = await startServe(t, cwd)
  const project = await before.createProject({ name: 'Shop', deployPath: site })
  for (const text of ['one', 'two']) await (await before.upload(project, { 'index.html': text })).finished
  const records = await before.deployments(project.id)
  const elsewhere = await before.createProject({ name: 'Forum', deployPath: join(cwd, 'forum') })
  const node = (await before.api<{ token: string }>('POST', '/api/enrollments', { name: 'n1' })).token
  const publicKey = Buffer.alloc(32, 1).toString('base64')
  await before.api('POST', '/api/agent/enroll', { token: node, publicKey, name: 'n1', labels: {}, version: '1' })
  await before.api('PATCH', `/api/projects/${elsewhere.id}/placements`, { add: [{ node: 'n1' }], remove: [] })
  const { size } = await before.api<{ size: number }>('GET', '/api/audit/checkpoint')
  await before.stop()

  writeFileSync(join(cwd, 'etcd-ca.pem'), etcd.options.ca as string)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const store = `etcd:${etcd.options.endpoints.join(',')}`
  const etcdWords = ['--store', store, '--etcd-ca', 'etcd-ca.pem', '--etcd-user', etcd.options.user as string]
  const begun = await run(['cluster', 'init', ...etcdWords, '--hub-name', 'h1', '--hub-url', url])
  t.equal(begun.code, 0, begun.stderr)
  t.match(begun.stdout, /"h1" is a hub of the cluster "svc", with 2 projects and 2 deployments/)
  t.equal(statSync(join(home, 'cluster.key')).mode & 0o777, 0o600)
  t.match((await run(['serve'])).stderr, /is a hub of a cluster/, 'it is not a server alone any more')

  const hub = await startServe(t, cwd, ['--store', store, '--port', String(port)], env)
  t.match(
    (await hub.deployments(project.id)).map(({ id }) => id),
    records.map(({ id }) => id)
  )
  const nodes = async () =>
    (await hub.api<{ nodes: Array<{ isConnected: boolean; name: string }> }>('GET', '/api/nodes')).nodes
  await until(async () => (await nodes()).some(({ name, isConnected }) => name === 'h1' && isConnected))
  const { placements } = await hub.api<{ placements: object[] }>('GET', `/api/projects/${project.id}/placements`)
  t.match(placements, [{ nodeName: 'h1', deployPath: site, liveDeployId: records[0]?.id }])
  const others = await hub.api<{ placements: object[] }>('GET', `/api/projects/${elsewhere.id}/placements`)
  t.match(others.placements, [{ nodeName: 'n1' }], 'what is placed on other nodes has no target here')
  t.equal(others.placements.length, 1)
  await hub.changeProject(project.id, { description: 'on a hub' })
  t.ok((await hub.api<{ size: number }>('GET', '/api/audit/checkpoint')).size > size)
  await hub.api('GET', `/api/audit/proof?from=${size}`)
  t.equal(readFileSync(join(site, 'index.html'), 'utf8'), 'two', 'the target stays as it was')
  const status = await run(['cluster', 'status', '--json'])
  t.match(JSON.parse(status.stdout), { name: 'svc', role: 'leader', hubs: [{ name: 'h1', behind: 0 }] })
  await hub.stop()

  const left = await run(['cluster', 'leave'])
  t.equal(left.code, 0, left.stderr)
  t.notOk(existsSync(join(home, 'cluster.json')))
  const after = await startServe(t, cwd)
  t.match(
    (await after.deployments(project.id)).map(({ id, status }) => ({ id, status })),
    records.map(({ id }) => ({ id, status: 'success' }))
  )
  t.ok((await after.api<{ size: number }>('GET', '/api/audit/checkpoint')).size > size)
  await after.api('GET', `/api/audit/proof?from=${size}`)
  await after.api('POST', `/api/projects/${project.id}/undo`, {})
  await until(() => readFileSync(join(site, 'index.html'), 'utf8') === 'one')
})

t.test(
  'a kill at any step leaves the server as it was, or the hub, and the command continues',
  { skip: withoutEtcd() },
  async t => {
    const etcd = await anEtcd(t)
    const cwd = t.testdir()
    const server = await stoppedServer(t, cwd)
    const { words, env } = wordsFor(etcd, cwd)
    const init = (home: string, n: number, cluster: string) =>
      killed(n, ['cluster', 'init', ...words, '--cluster', cluster, '--hub-name', 'h1', '--hub-url', 'https://h1'], {
        cwd,
        env: { ...env, SVC_HOME: home }
      })
    const whole = await init(copyOf(server.home, 'c0'), 0, 'c0')
    t.equal(whole.code, 0, whole.stderr)
    t.notMatch(whole.stderr, /not synced/, 'every file is on the disk before it replaces another')
    const outcomes = new Set<string>()
    for (const step of stepsOf(whole)) {
      const cluster = `c${step}`
      const home = copyOf(server.home, cluster)
      wasKilled(t, await init(home, step, cluster), { step, whole })
      // As every start does.
      await finishRestore(home)
      outcomes.add(existsSync(join(home, 'cluster.json')) ? 'hub' : 'server')
      if (existsSync(join(home, 'cluster.json'))) await isHubOf(t, home, server)
      else await isServer(t, home, server)
      const again = await init(home, 0, cluster)
      t.equal(again.code, 0, `step ${step}: ${again.stderr}`)
      await isHubOf(t, home, server)
      const asides = readdirSync(cwd).filter(name => name.startsWith(`server-home-${cluster}.before-`))
      t.equal(asides.length, 1, `step ${step}: one directory has the files as they were`)
      await isServer(t, join(cwd, asides[0] as string), server)
      t.strictSame(
        readdirSync(home).filter(name => /^\.(cluster|restore)/.test(name)),
        [],
        'nothing is left over'
      )
    }
    t.strictSame([...outcomes].sort(), ['hub', 'server'])
  }
)

/** The data directory is that of the server alone, with all that it had. */
async function isServer(t: Test, home: string, server: StoppedServer): Promise<void> {
  t.notOk(existsSync(join(home, 'cluster.json')) || existsSync(join(home, 'cluster.key')))
  t.equal(tokenOf(home), tokenOf(server.home))
  await hasDeployments(t, home, server)
}

/** The data directory is that of a hub whose node has the target. */
async function isHubOf(t: Test, home: string, server: StoppedServer): Promise<void> {
  t.ok(existsSync(join(home, 'cluster.key')) && existsSync(join(home, 'node/agent.json')))
  await hasDeployments(t, home, server)
  await hasDeployments(t, join(home, 'node'), server)
  const store = await openStore({ directory: home })
  t.match(listPlacements(store, { projectId: server.project.id }), [{ deployPath: server.site }])
  t.equal(findSecret(store, 'adminToken'), tokenOf(server.home))
  await store.close()
}

async function hasDeployments(t: Test, home: string, { deployments }: StoppedServer): Promise<void> {
  const store = await openStore({ directory: home })
  t.equal(store.all('SELECT id FROM deployments').length, deployments.length)
  await store.close()
  for (const { id } of deployments) t.ok(existsSync(join(home, `deployments/${id}.zip`)), `${id} in ${home}`)
}
