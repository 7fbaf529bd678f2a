import t from 'tap'
import { createHeldLines, type LinePart } from '../../../www/state/held-lines.js'

const part = (start: number, ...texts: string[]): LinePart => ({
  lines: texts.map(text => ({ at: '', text })),
  bytes: { start, end: start + texts.reduce((sum, text) => sum + text.length + 1, 0) }
})
const texts = (held: ReturnType<typeof createHeldLines>): string => held.lines.map(({ text }) => text).join(' ')

t.test('adds parts at both ends without changing line numbers', async t => {
  const held = createHeldLines()
  t.same([held.start, held.end], [null, null])
  held.append(part(10, 'c', 'd'))
  held.append(part(14, 'e'))
  held.prepend(part(6, 'a', 'b'))
  t.equal(texts(held), 'a b c d e')
  t.same([held.firstNumber, held.start, held.end], [-2, 6, 16])
  t.same([-2, -1, 0, 1, 2, 3].map(held.offsetOf), [6, 8, 10, 12, 14, null])
})

t.test('beyond the limit, drops whole parts at the end that is not read', async t => {
  const held = createHeldLines({ maxLines: 10 })
  for (let index = 0; index < 6; index++) held.append(part(index * 4, `${index}`, `${index}`))
  held.trim('head')
  t.equal(texts(held), '2 2 3 3 4 4 5 5')
  t.same([held.firstNumber, held.start, held.end], [4, 8, 24])
  held.prepend(part(4, '1', '1'))
  held.prepend(part(0, '0', '0'))
  held.trim('tail')
  t.equal(texts(held), '0 0 1 1 2 2 3 3')
  t.same([held.firstNumber, held.start, held.end], [0, 0, 16])
})

t.test('counts the length of long lines', async t => {
  const held = createHeldLines({ maxCharacters: 1000 })
  for (let index = 0; index < 5; index++) held.append(part(index * 400, 'x'.repeat(399)))
  held.trim('head')
  t.equal(held.lines.length, 2)
  held.append(part(9000, 'x'.repeat(5000)))
  held.trim('head')
  t.equal(held.lines.length, 1, 'the last part stays, however large')
})

t.test('removes an incomplete line', async t => {
  const held = createHeldLines()
  held.append(part(0, 'one', 'unfin'))
  held.dropLast(4)
  t.equal(texts(held), 'one')
  t.equal(held.end, 4)
  held.append(part(4, 'unfinished'))
  t.same([4, held.offsetOf(1)], [4, 4])
})

t.test('after a rotation, loaded lines have no offset', async t => {
  const held = createHeldLines({ maxLines: 3 })
  held.append(part(100, 'old', 'old'))
  held.forgetBytes()
  t.same([held.start, held.end, held.offsetOf(0)], [null, null, null])
  held.append({ lines: [{ at: '', text: 'rotated', isNote: true }], bytes: { start: 0, end: 0 } })
  held.append(part(0, 'new'))
  t.same([held.start, held.end], [null, 4], 'before the first line stands what cannot be had')
  held.trim('head')
  t.equal(texts(held), 'rotated new')
  t.equal(held.start, 0)
})
