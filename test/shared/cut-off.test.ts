import t from 'tap'
import { isCutOff } from '../../lib/shared/cut-off.js'

t.test('a hub is cut off if it hears of no leader, or is a follower that cannot follow', async t => {
  t.notOk(isCutOff({ role: 'leader', problem: null }))
  t.notOk(isCutOff({ role: 'leader', problem: 'etcd is full' }), 'its own reads are up to date')
  t.notOk(isCutOff({ role: 'follower', problem: null }))
  t.ok(isCutOff({ role: 'follower', problem: 'The cluster has a newer schema' }))
  t.ok(isCutOff({ role: 'alone', problem: null }))
})
