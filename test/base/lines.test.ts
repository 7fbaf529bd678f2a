import t from 'tap'
import { createLineSplitter, maxLineBytes } from '../../lib/base/lines.js'

/** Returns the lines for these pieces of input. */
function lines(pieces: Buffer[]): string[] {
  const out: string[] = []
  const splitter = createLineSplitter(line => out.push(line))
  for (const piece of pieces) splitter.push(piece)
  splitter.end()
  return out
}

const cases: Array<[what: string, input: Buffer, expected: string[]]> = [
  ['nothing', Buffer.from(''), []],
  ['one line', Buffer.from('a\n'), ['a']],
  ['no final newline', Buffer.from('a\nb'), ['a', 'b']],
  ['empty lines', Buffer.from('\n\na\n\n'), ['', '', 'a', '']],
  ['CR LF', Buffer.from('a\r\nb\r\n'), ['a', 'b']],
  ['a CR inside a line stays', Buffer.from('10%\r20%\n'), ['10%\r20%']],
  ['characters of two to four bytes', Buffer.from('é漢🙂\nü\n'), ['é漢🙂', 'ü']],
  ['invalid UTF-8', Buffer.from([0x61, 0xff, 0x0a]), ['a\ufffd']]
]

for (const [what, input, expected] of cases) {
  t.test(`createLineSplitter: ${what}, whole and cut at every byte`, async t => {
    t.same(lines([input]), expected, 'whole')
    for (let cut = 0; cut <= input.length; cut++) {
      t.same(lines([input.subarray(0, cut), input.subarray(cut)]), expected, `cut at ${cut}`)
    }
    t.same(lines(Array.from(input, byte => Buffer.from([byte]))), expected, 'one byte at a time')
  })
}

t.test('createLineSplitter passes on a line that is too long in pieces, without loss', async t => {
  const text = '漢'.repeat(maxLineBytes)
  for (const size of [7, 1000, 65_536, text.length * 3]) {
    const bytes = Buffer.from(`${text}\nnext\n`)
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size))
    const out = lines(pieces)
    t.equal(out.pop(), 'next')
    t.ok(out.join('') === text, `in chunks of ${size}`)
    t.ok(
      out.every(line => Buffer.byteLength(line) <= maxLineBytes),
      'every piece is within the limit'
    )
  }
})
