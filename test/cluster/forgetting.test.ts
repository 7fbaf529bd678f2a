import { randomBytes } from 'node:crypto'
import t from 'tap'
import { createEtcdClient } from '../../lib/cluster/etcd/client.js'
import { EtcdConnection } from '../../lib/cluster/etcd/connection.js'
import { forgetHub } from '../../lib/cluster/forgetting.js'
import { beginHistory } from '../../lib/cluster/history.js'
import { createHubList } from '../../lib/cluster/hub-list.js'
import { createSealing, keysOf } from '../../lib/cluster/sealing.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { ownHub } from '../support/hub-keys.js'

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
