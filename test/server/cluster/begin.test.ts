import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'
import { freePort } from '../../support/free-port.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'

t.test(
  'a server moves into a cluster and back, and nothing is lost',
  { skip: withoutEtcd(), timeout: 120_000 },
  async t => {
    const etcd = await anEtcd(t)
    const cwd = t.testdir()
    const [home, site] = [join(cwd, 'server-home'), join(cwd, 'site')]
    const env = { SVC_HOME: home, SVC_ETCD_PASSWORD: etcd.options.password as string }
    const run = (words: string[]) => svc(words, { cwd, env })

    const before = await startServeProcess(t, cwd)
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
    t.match(begun.stdout, /"h1" is the first hub of the cluster "svc", with 2 projects and 2 deployments/)
    t.equal(statSync(join(home, 'cluster.key')).mode & 0o777, 0o600)
    t.match((await run(['serve'])).stderr, /is a hub of a cluster/, 'it is not a server alone any more')

    const hub = await startServeProcess(t, cwd, ['--store', store, '--port', String(port)], env)
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
    const after = await startServeProcess(t, cwd)
    t.match(
      (await after.deployments(project.id)).map(({ id, status }) => ({ id, status })),
      records.map(({ id }) => ({ id, status: 'success' }))
    )
    t.ok((await after.api<{ size: number }>('GET', '/api/audit/checkpoint')).size > size)
    await after.api('GET', `/api/audit/proof?from=${size}`)
    await after.api('POST', `/api/projects/${project.id}/undo`, {})
    await until(() => readFileSync(join(site, 'index.html'), 'utf8') === 'one')
  }
)
