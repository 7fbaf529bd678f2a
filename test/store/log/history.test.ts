import { randomBytes } from 'node:crypto'
import t from 'tap'
import { createEtcdClient } from '../../../lib/store/log/etcd/client.js'
import { connectEtcd } from '../../../lib/store/log/etcd/connection.js'
import { beginHistory, newHistoryId, openHistory, readHistory, sealHistory } from '../../../lib/store/log/history.js'
import { keysOf } from '../../../lib/store/log/keys.js'
import { createSealing } from '../../../lib/store/log/sealing.js'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'

t.test('a log begins once', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t, { tls: false, auth: false })
  const connection = connectEtcd(etcd.options)
  t.teardown(() => connection.close())
  const needs = { client: createEtcdClient(connection), keys: keysOf('a'), sealing: createSealing(randomBytes(32)) }
  t.equal(await readHistory(needs), null)
  const history = { id: newHistoryId(), after: 12 }
  t.equal(await beginHistory(needs, history), true)
  t.equal(await beginHistory(needs, history), true, 'a request that is carried out twice is not another log')
  t.equal(await beginHistory(needs, { id: newHistoryId(), after: 0 }), false)
  t.same(await readHistory(needs), history)
  await t.rejects(readHistory({ ...needs, sealing: createSealing(randomBytes(32)) }), { code: 'cluster_sealed' })
})

t.test('a history that was moved to another cluster is refused', async t => {
  const sealing = createSealing(randomBytes(32))
  const value = sealHistory({ id: 'x', after: 1 }, { keys: keysOf('a'), sealing })
  t.throws(() => openHistory(value, { keys: keysOf('b'), sealing }), { code: 'cluster_sealed' })
  t.not(newHistoryId(), newHistoryId())
})
