import t from 'tap'
import { endOfPrefix } from '../../../lib/store/log/etcd/client.js'
import { keysOf } from '../../../lib/store/log/keys.js'

t.test('the keys of lines are in the order of their numbers', async t => {
  const keys = keysOf('main')
  const numbers = [0, 9, 10, 99, 12345, 2 ** 40, Number.MAX_SAFE_INTEGER]
  const lines = numbers.map(keys.line)
  t.same([...lines].sort(), lines)
  t.same(lines.map(keys.numberOf), numbers)
  t.equal(keys.line(7), '/svc/main/log/0000000000000007')
})

t.test('one range covers the leader and the log, and neither hubs nor parts nor other clusters', async t => {
  const keys = keysOf('main')
  const isIn = (key: string) => key >= keys.leader && key < endOfPrefix(keys.log)
  t.ok(isIn(keys.leader) && isIn(keys.line(0)) && isIn(keys.line(Number.MAX_SAFE_INTEGER)))
  for (const key of [keys.history, keys.hub('zz'), keys.partOf(1, 2), keysOf('main2').line(1)]) t.notOk(isIn(key), key)
})
