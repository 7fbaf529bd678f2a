import t from 'tap'
import { countMembers } from '../../../../lib/store/log/etcd/members.js'
import { startEtcd, withoutEtcd } from '../../../support/etcd.js'

t.test('counts the members of a real etcd from one address', { skip: withoutEtcd() }, async t => {
  for (const size of [1, 2, 3]) {
    const etcd = await startEtcd({ size })
    const endpoints = etcd.options.endpoints.slice(0, 1)
    t.equal(await countMembers({ ...etcd.options, endpoints }), size)
    t.equal(await countMembers({ ...etcd.options, password: 'wrong' }), null, 'etcd does not tell this user')
    await etcd.close()
    if (size === 1) t.equal(await countMembers({ ...etcd.options }), null, 'etcd does not answer')
  }
})
