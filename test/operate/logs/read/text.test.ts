import t from 'tap'
import { cutAfter, cutBefore, isBinary, lineText, linesOf } from '../../../../lib/operate/logs/read/text.js'

t.test('splits bytes into lines', async t => {
  for (const [text, lines] of [
    ['', []],
    ['\n', ['']],
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\n\n', ['a', '']],
    ['a\r\nb\r\n', ['a', 'b']],
    ['a\rb\nc', ['a\rb', 'c']],
    ['\0\0a\n', ['a']],
    ['\0\0', []],
    ['a\0b', ['a\0b']]
  ] as const)
    t.strictSame(linesOf(Buffer.from(text)), lines, JSON.stringify(text))
  t.strictSame(linesOf(Buffer.from([0x61, 0xff])), ['a\ufffd'])
})

t.test('returns one line of a block', async t => {
  const bytes = Buffer.from('a\r\n\r\nb')
  t.strictSame(
    [lineText(bytes, 0, 2), lineText(bytes, 3, 4), lineText(bytes, 5, 6), lineText(bytes, 2, 2)],
    ['a', '', 'b', '']
  )
})

t.test('moves a cut to the start of a character', async t => {
  const bytes = Buffer.from('a€😀b')
  for (let cut = 0; cut <= bytes.length; cut++) {
    const [starts, next] = [[0, 1, 4, 8, 9].filter(at => at <= cut).at(-1), [0, 1, 4, 8, 9].find(at => at >= cut)]
    t.equal(cutBefore(bytes, cut), starts, `before ${cut}`)
    t.equal(cutAfter(bytes, cut), next, `after ${cut}`)
  }
  const none = Buffer.alloc(20, 0x80)
  t.strictSame([cutBefore(none, 10), cutAfter(none, 10), cutBefore(none, 2)], [10, 10, 2], 'no UTF-8')
  t.equal(cutAfter(none, 18), 20, 'to the end')
})

t.test('detects bytes that are not text', async t => {
  const mixed = (controls: number, all: number): Buffer =>
    Buffer.concat([Buffer.alloc(all - controls, 'a'), Buffer.alloc(controls, 1)])
  t.equal(isBinary(Buffer.alloc(0)), false)
  t.equal(isBinary(Buffer.alloc(5)), true, 'zeros only')
  t.equal(isBinary(Buffer.from('\0\0\0\0text')), false, 'a hole')
  t.equal(isBinary(Buffer.from('text\0')), true)
  t.equal(isBinary(mixed(0, 1000)), false)
  t.equal(isBinary(mixed(9, 1000)), false)
  t.equal(isBinary(mixed(10, 1000)), true, 'one in a hundred')
  t.equal(isBinary(Buffer.from('\t\b\f\r\n\x1b[1m'.repeat(9))), false, 'control characters of text')
  const sample = 32 * 1024
  t.equal(
    isBinary(Buffer.concat([Buffer.alloc(sample, 'a'), Buffer.alloc(sample, 1), Buffer.alloc(sample, 'a')])),
    false,
    'the middle is not checked'
  )
  t.equal(
    isBinary(Buffer.concat([Buffer.alloc(sample, 'a'), Buffer.alloc(sample, 'a'), mixed(sample, sample)])),
    true,
    'the end is checked'
  )
  t.equal(isBinary(mixed(400, sample + 500)), true, 'a tail shorter than a sample is checked once')
})
