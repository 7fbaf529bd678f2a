import '../support/without-dom.js'
import t from 'tap'
import { createKeys, type Key } from '../../www/overlays.js'

const plain = { ctrlKey: false, metaKey: false, altKey: false, isWriting: false }
const press = (key: string, rest: Partial<Key> = {}): Key => ({ ...plain, key, ...rest })

t.test('Ctrl-K opens the palette, also while the user types; other keys are ignored then', async t => {
  const keys = createKeys()
  t.same(keys(press('k', { ctrlKey: true, isWriting: true }), 0), { kind: 'palette' })
  t.same(keys(press('K', { metaKey: true }), 0), { kind: 'palette' })
  for (const key of ['?', '/', 'g', 'p']) t.equal(keys(press(key, { isWriting: true }), 0), null, key)
})

t.test('g and the key of a room open the room within the time limit', async t => {
  const keys = createKeys()
  t.equal(keys(press('p'), 0), null, 'no g before')
  t.equal(keys(press('g'), 0), null)
  t.same(keys(press('p'), 500), { kind: 'go', address: 'projects' })
  t.equal(keys(press('p'), 600), null, 'no second g')
  keys(press('g'), 1000)
  t.equal(keys(press('p'), 9000), null, 'too late')
  keys(press('g'), 10_000)
  t.equal(keys(press('x'), 10_100), null, 'no such room')
})

t.test('? shows the help, and / focuses the search field', async t => {
  const keys = createKeys()
  t.same(keys(press('?'), 0), { kind: 'help' })
  t.same(keys(press('/'), 0), { kind: 'search' })
  t.equal(keys(press('/', { ctrlKey: true }), 0), null)
})
