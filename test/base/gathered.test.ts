import t from 'tap'
import { gather } from '../../lib/base/gathered.js'

t.test('joins pieces of any size, and holds at least what it keeps before it keeps it', async t => {
  for (const announced of [0, 5, 3000, 100_000]) {
    let held = 0
    const gathered = gather(announced, bytes => (held += bytes))
    t.ok(held >= announced, 'the announced size is held before the first byte')
    const all = Buffer.from(Array.from({ length: 3000 }, (_, i) => i % 251))
    for (let at = 0, size = 1; at < all.length; at += size, size = (size * 7) % 101) {
      gathered.add(all.subarray(at, at + size))
      if (held < gathered.length) t.fail(`${held} held, ${gathered.length} kept`)
    }
    t.ok(gathered.bytes().equals(all))
    t.ok(held <= Math.max(announced, 3 * all.length), `not much more is held: ${held}`)
  }
})

t.test('one piece of the announced size is not copied', async t => {
  const piece = Buffer.from('whole')
  const gathered = gather(piece.length, () => {})
  gathered.add(piece)
  t.equal(gathered.bytes().buffer, piece.buffer)
})

t.test('what `hold` throws is thrown before bytes are kept', async t => {
  const gathered = gather(0, bytes => {
    if (bytes > 600) throw new Error('no room')
  })
  t.throws(() => gathered.add(Buffer.alloc(2000)), /no room/)
  t.equal(gathered.length, 0)
})
