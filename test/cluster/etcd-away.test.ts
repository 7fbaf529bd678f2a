import { join } from 'node:path'
import t from 'tap'
import { startCluster } from '../support/cluster-stage.js'
import { withoutEtcd } from '../support/etcd.js'
import { until } from '../support/until.js'

t.test('a command waits while etcd is away for a few seconds', { skip: withoutEtcd() }, async t => {
  const stage = await startCluster(t, [])
  for (const at of [0, 1] as const) {
    const isAlone = async () => (await stage.roleOf(at)) === 'alone'
    await stage.etcd.members[0]?.kill()
    await until(isAlone, { what: 'a hub without etcd' })
    const { url, adminToken } = stage.hubs[at]
    const words = ['projects', 'create', `P${at}`, '--path', join(stage.cwd, `p${at}`), '--server', url]
    const created = stage.run(at, [...words, '--token', adminToken])
    await new Promise(resolve => setTimeout(resolve, 3000))
    stage.etcd.members[0]?.start()
    const { code, stderr } = await created
    t.equal(code, 0, stderr)
    await until(async () => !(await isAlone()))
  }
})
