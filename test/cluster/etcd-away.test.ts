import { join } from 'node:path'
import t from 'tap'
import { startCluster } from '../support/cluster-stage.js'
import { withoutEtcd } from '../support/etcd.js'
import { until } from '../support/until.js'

t.test('a command waits while etcd is away for a few seconds', { skip: withoutEtcd() }, async t => {
  const stage = await startCluster(t, [])
  const isAlone = async (at: 0 | 1) => (await stage.roleOf(at)) === 'alone'
  await stage.etcd.members[0]?.kill()
  await until(async () => (await isAlone(0)) && (await isAlone(1)), { what: 'hubs without etcd' })
  const create = (at: 0 | 1) => {
    const { url, adminToken } = stage.hubs[at]
    const words = ['projects', 'create', `P${at}`, '--path', join(stage.cwd, `p${at}`), '--server', url]
    return stage.run(at, [...words, '--token', adminToken])
  }
  const created = Promise.all([create(0), create(1)])
  await new Promise(resolve => setTimeout(resolve, 3000))
  stage.etcd.members[0]?.start()
  for (const { code, stderr } of await created) t.equal(code, 0, stderr)
})
