import t from 'tap'
import { MultipartParser, type ParserEvents } from '../../../lib/http/form/multipart-parser.js'

const limits = { maxHeaderBytes: 100, maxPreambleBytes: 100, maxEpilogueBytes: 100 }

/** Returns the events of a parser for a body in pieces of `pieceBytes`. */
function eventsOf(body: string, pieceBytes: number, more: Partial<ParserEvents> = {}): string[] {
  const events: string[] = []
  let content = ''
  const parser = new MultipartParser('B', limits, {
    headers: lines => void events.push(lines.join('|')),
    content: bytes => void (content += bytes.toString('latin1')),
    partEnd() {
      events.push(content)
      content = ''
      return false
    },
    ...more
  })
  const bytes = Buffer.from(body, 'latin1')
  for (let at = 0; at < bytes.length; at += pieceBytes) parser.write(bytes.subarray(at, at + pieceBytes))
  parser.end()
  return events
}

const body =
  'preamble\r\n--B\r\nA: 1\r\nB: 2\r\n\r\none\r\n--Bnot\r\n-\r\r\n--B  \r\nC: folded\r\n line\r\n\r\n\r\n--B--\r\nepilogue'

t.test('gives the same events wherever a body is cut', async t => {
  const whole = eventsOf(body, body.length)
  t.same(whole, ['A: 1|B: 2', 'one\r\n--Bnot\r\n-\r', 'C: folded line', ''])
  for (let pieceBytes = 1; pieceBytes < 20; pieceBytes++)
    t.same(eventsOf(body, pieceBytes), whole, `${pieceBytes} bytes`)
})

t.test('continues with the next write after a part has held the parser', async t => {
  let parts = 0
  const parser = new MultipartParser('B', limits, {
    headers: () => {},
    content: () => {},
    partEnd: () => ++parts === 1
  })
  const bytes = Buffer.from('--B\r\n\r\na\r\n--B\r\n\r\nb\r\n--B--')
  const taken = parser.write(bytes)
  t.ok(taken < bytes.length, `${taken} of ${bytes.length}`)
  t.equal(parser.write(bytes.subarray(taken)), bytes.length - taken)
  parser.end()
  t.equal(parts, 2)
})

for (const [code, broken] of [
  ['truncated', '--B\r\n\r\nno end'],
  ['broken_boundary', 'no boundary at all'],
  ['header_too_long', `--B\r\nA: ${'x'.repeat(200)}\r\n\r\n`],
  ['epilogue_too_long', `--B\r\n\r\na\r\n--B--\r\n${'x'.repeat(200)}`]
] as const) {
  t.test(`refuses ${code} wherever the body is cut`, async t => {
    for (const pieceBytes of [1, 7, broken.length]) t.throws(() => eventsOf(broken, pieceBytes), { code })
  })
}
