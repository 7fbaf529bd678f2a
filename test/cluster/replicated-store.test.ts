import t from 'tap'
import { readSettings } from '../../lib/core/store/tables/server.js'
import { startEtcd, withoutEtcd } from '../support/etcd.js'
import { soon, until } from '../support/until.js'
import { contentOf, hubsOn, put } from './hubs.js'

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const options = () => (etcd as NonNullable<typeof etcd>).options

t.test('one hub leads, the others apply what it writes', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1')
  await until(() => first.role().kind === 'leader')
  await put(first, 'a', '1')
  const second = await stage.open('h2')
  t.equal(second.role().kind, 'follower')
  t.strictSame(second.role().leader, { name: 'h1', url: 'http://h1.test' })
  t.equal(readSettings(second)['a'], '1', 'what was written before it came is in the image')
  const followed = second.follow('settings')
  followed.take()
  const [version, revision] = [second.version(['settings']), second.revision()]
  await put(first, 'b', '2')
  await second.reached(first.sequence(), soon())
  t.equal(readSettings(second)['b'], '2')
  t.not(second.version(['settings']), version, 'copies of the table are no longer valid')
  t.ok(second.revision() > revision)
  t.same(contentOf(second), contentOf(first))
  await t.rejects(put(second, 'c', '3'), { code: 'not_leader', kind: 'unavailable', retryAfterSeconds: 1 })
  t.ok(second.state().ok && first.state().ok)
  t.same((await first.hubs()).map(({ name }) => name).sort(), ['h1', 'h2'])
})

t.test('another hub leads after the leader has closed, with all writes', { skip }, async t => {
  const stage = hubsOn(t, options())
  // Longer than anything here waits: only a lease that is given up ends.
  const limits = { leaseSeconds: 600 }
  const first = await stage.open('h1', { limits })
  const second = await stage.open('h2', { limits })
  await stage.leader()
  for (let n = 0; n < 20; n++) await put(first, `k${n}`, String(n))
  await first.close()
  stage.hubs.delete('h1')
  t.equal(await stage.leader(), second, 'the lease was given up, so nobody waits for its end')
  t.equal(Object.keys(readSettings(second)).filter(key => key.startsWith('k')).length, 20)
  await put(second, 'after', 'x')
  const again = await stage.open('h1', { begin: false })
  await again.reached(second.sequence(), soon())
  t.same(contentOf(again), contentOf(second))
})
