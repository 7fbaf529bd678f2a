import t from 'tap'
import { randomBytes } from 'node:crypto'
import { createSealing, keysOf } from '../../lib/cluster/sealing.js'
import { endOfPrefix } from '../../lib/cluster/etcd/client.js'

const key = randomBytes(32)
const place = { key: '/svc/main/log/0000000000000007', history: 'h', number: 7 }

t.test('opens what it sealed, and nobody sees it', async t => {
  const { seal, open } = createSealing(key)
  const plain = Buffer.from('INSERT INTO tokens VALUES (secret)')
  const sealed = seal(plain, place)
  t.same(createSealing(key).open(sealed, place), plain)
  t.equal(sealed.indexOf('secret'), -1)
  t.equal(sealed.length, plain.length + 28)
  t.notSame(seal(plain, place), sealed, 'the same value looks different each time')
  t.same(open(seal(Buffer.of(), place), place), Buffer.of())
})

t.test('refuses a value that was changed, moved, or sealed with another key', async t => {
  const { seal, open } = createSealing(key)
  const sealed = seal(Buffer.from('value'), place)
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed[at] = (changed[at] as number) ^ 1
    t.throws(() => open(changed, place), { code: 'cluster_sealed' })
  }
  const places = [
    { ...place, key: '/svc/main/log/0000000000000008' },
    { ...place, history: 'other' },
    { ...place, number: 2 ** 20 + 7 }
  ]
  for (const other of places) t.throws(() => open(sealed, other), { code: 'cluster_sealed' })
  t.throws(() => createSealing(randomBytes(32)).open(sealed, place), { code: 'cluster_sealed' })
  for (const length of [0, 11, 12, 27])
    t.throws(() => open(sealed.subarray(0, length), place), { code: 'cluster_sealed' })
  t.throws(() => createSealing(randomBytes(31)), /32 bytes/)
})

t.test('a key that is expected opens values, and comes into use with the value that proves it', async t => {
  const [next, other] = [randomBytes(32), randomBytes(32)]
  let used = 0
  const sealing = createSealing(key, { next: [other], onUse: () => void used++ })
  sealing.expect(next)
  sealing.expect(next)
  t.same(sealing.keys, [key, other, next])
  const [before, after] = [key, next].map(one => createSealing(one).seal(Buffer.from('value'), place)) as [
    Buffer,
    Buffer
  ]
  t.same(sealing.open(after, place), Buffer.from('value'))
  t.same(sealing.open(before, place), Buffer.from('value'), 'the present key is still in use')
  sealing.adopt(before, place)
  t.equal(used, 0)
  sealing.adopt(after, place)
  t.equal(used, 1)
  t.same(sealing.keys, [next])
  t.throws(() => sealing.open(before, place), { code: 'cluster_sealed' })
  t.same(createSealing(next).open(sealing.seal(Buffer.from('v'), place), place), Buffer.from('v'))
  for (let at = 0; at < 9; at++) sealing.expect(randomBytes(32))
  t.equal(sealing.keys.length, 5, 'only the newest ones are kept')
})

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
