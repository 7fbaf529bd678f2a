import t from 'tap'
import { Flow, createTerminalModes } from '../../../lib/operate/terminal/flow.js'
import { createEmulator } from '../../../www/terminal/emulator.js'

const limits = { keptBytes: 100, windowBytes: 400, batchBytes: 64 }

/** Takes everything that is available. */
function takeAll(flow: Flow): string {
  const texts: string[] = []
  for (let text = flow.take(); text !== ''; text = flow.take()) texts.push(text)
  return texts.join('')
}

t.test('returns the output once, in order, in pieces of limited size', async t => {
  const flow = new Flow(limits)
  t.equal(flow.take(), '')
  flow.push('a'.repeat(50), true)
  t.equal(flow.take(), 'a'.repeat(50))
  for (let i = 0; i < 3; i++) flow.push('b'.repeat(40), true)
  t.equal(flow.sent, 50)
  t.equal(takeAll(flow), 'b'.repeat(120))
  t.equal(flow.sent, 170)
  t.equal(flow.take(), '')
  flow.push('', true)
  t.equal(flow.take(), '')
})

t.test('is full while more than the window is unacknowledged', async t => {
  const flow = new Flow(limits)
  flow.push('x'.repeat(400), true)
  t.equal(flow.isFull, false)
  flow.push('y', true)
  t.equal(flow.isFull, true)
  takeAll(flow)
  t.equal(flow.isFull, true, 'sent bytes are not acknowledged bytes')
  t.equal(flow.ack(1), 'taken')
  t.equal(flow.isFull, false)
  t.equal(flow.ack(0), 'taken', 'a smaller position changes nothing')
  t.equal(flow.isFull, false)
  t.equal(flow.ack(402), 'ahead')
  t.equal(flow.ack(401), 'taken')
})

t.test('continues for a returning client from its last ack, or from the position it names', async t => {
  const flow = new Flow(limits)
  flow.push('0123456789', true)
  takeAll(flow)
  flow.ack(4)
  t.equal(flow.rewind(), 4)
  t.equal(takeAll(flow), '456789')
  t.equal(flow.rewind(0), 0, 'acknowledged output is kept for a while')
  t.equal(takeAll(flow), '0123456789')
  t.equal(flow.rewind(7), 7)
  t.equal(takeAll(flow), '789')
  t.equal(flow.rewind(), 7, 'a position that the client has is acknowledged')
  t.equal(flow.rewind(1000), 10, 'the nearest position')
  flow.push('ab', true)
  t.equal(takeAll(flow), 'ab')
})

t.test('keeps exactly the last bytes while no client is connected', async t => {
  const flow = new Flow(limits)
  flow.push('seen', true)
  takeAll(flow)
  flow.ack(4)
  for (let i = 0; i < 50; i++) flow.push(`line ${String(i).padStart(4, '0')}\n`, false)
  t.equal(flow.isFull, false)
  t.equal(flow.rewind(), 4 + 500 - 100)
  const kept = takeAll(flow)
  t.equal(kept.length, 100)
  t.match(kept, /^line 0040\n[^]*line 0049\n$/)
  flow.push('more', true)
  t.equal(takeAll(flow), 'more')

  const large = new Flow(limits)
  large.push('z'.repeat(1000), false)
  t.equal(large.rewind(), 900)
  t.equal(takeAll(large).length, 100)
})

t.test('keeps unacknowledged output while a client is connected, and drops acknowledged output', async t => {
  const flow = new Flow(limits)
  for (let i = 0; i < 40; i++) {
    flow.push('0123456789', true)
    flow.take()
  }
  t.equal(flow.rewind(), 0)
  t.equal(takeAll(flow).length, 400)
  flow.ack(400)
  for (let i = 0; i < 1000; i++) {
    flow.push('x'.repeat(4096), true)
    flow.ack(flow.sent + takeAll(flow).length)
  }
  const offset = flow.rewind(0)
  t.ok(flow.rewind(0) > 400 + 1000 * 4096 - 100 - 3 * 4096, `only the last bytes are kept, from ${offset} on`)
})

t.test('moves a position within a character to its start', async t => {
  for (let position = 0; position <= 13; position++) {
    const flow = new Flow(limits)
    flow.push('aé€😀b', true)
    flow.push('cd', true)
    takeAll(flow)
    const offset = flow.rewind(position)
    const text = takeAll(flow)
    t.equal(offset + Buffer.byteLength(text), 13)
    t.ok('aé€😀bcd'.endsWith(text) && offset <= position, `${position}: "${text}" from ${offset}`)
  }
  const flow = new Flow(limits)
  for (let i = 0; i < 100; i++) flow.push('€', false)
  const offset = flow.rewind()
  t.equal(takeAll(flow), '€'.repeat((300 - offset) / 3), 'also if old output is dropped')
})

t.test('handles a program that prints byte by byte at low cost', async t => {
  const flow = new Flow()
  // If each byte cost as much as all kept output, the test would time out.
  for (let i = 0; i < 500_000; i++) {
    flow.push('x', true)
    if (i % 3 === 0) flow.ack(flow.sent + flow.take().length)
  }
  t.equal(flow.rewind(500_000), 500_000)
})

t.test('keeps the modes that dropped output has set, for who begins at the oldest byte', async t => {
  const flow = new Flow(limits)
  flow.push('\x1b[?2004h', false)
  t.equal(flow.modes, '', 'nothing is dropped')
  flow.push('x'.repeat(200), false)
  t.equal(flow.modes, '\x1b[?2004h')
  t.equal(flow.rewind(0), 108)
  t.equal(flow.modes, '\x1b[?2004h')
  flow.take()
  t.equal(flow.rewind(150), 150)
  t.equal(flow.modes, '')
})

function modesAfter(...texts: string[]): string {
  const modes = createTerminalModes()
  for (const text of texts) modes.read(text)
  return modes.sequences()
}

const cases: Array<[what: string, output: string, expected: string]> = [
  ['text sets nothing', 'plain\r\n', ''],
  ['private modes, the latest last', 'a\x1b[?1h\x1b[?1002;1006h\x1b[?1lb', '\x1b[?1002h\x1b[?1006h\x1b[?1l'],
  ['the alternate screen', '\x1b[?1049h\x1b[2J', '\x1b[?1049h'],
  ['a C1 control', '\x9b?2004h', '\x1b[?2004h'],
  [
    'insert, keypad, margins, cursor, line drawing',
    '\x1b[4h\x1b=\x1b[2;9r\x1b[5 q\x1b(0\x0e',
    '\x1b[4h\x1b=\x1b[2;9r\x1b[5 q\x1b(0\x0e'
  ],
  ['colours since their reset', '\x1b[31m\x1b[0;1m\x1b[38:5:9m', '\x1b[0;1m\x1b[38:5:9m'],
  ['no colours after a reset', '\x1b[31m\x1b[m', ''],
  ['the title', '\x1b]2;one\x07\x1b]0;two\x1b\\\x1b]52;c;x\x07', '\x1b]0;two\x1b\\'],
  ['a full reset', '\x1b[?1h\x1b]0;x\x07\x1bc', ''],
  ['a soft reset', '\x1b[?1h\x1b[?1000h\x1b[31m\x1b[!p', '\x1b[?1000h'],
  ['what a string contains is not a sequence', '\x1bPq[?1h\x1b\\\x1b]8;;x(0\x07', ''],
  ['a cut sequence', 'a\x1b[?10', '\x1b[?10'],
  ['a cut string, long', `\x1b]0;${'x'.repeat(1000)}`, '\x1b]'],
  ['a sequence that another one ends', '\x1b[?1\x1b[?2004h', '\x1b[?2004h']
]

for (const [what, output, expected] of cases)
  t.test(what, async t => {
    t.equal(modesAfter(output), expected)
    if (output.length < 100) t.equal(modesAfter(...output), expected, 'one character at a time')
  })

t.test('what it keeps is limited', async t => {
  const many = Array.from({ length: 5000 }, (_, i) => `\x1b[?${i}h\x1b[38;5;${i}m`).join('')
  t.ok(modesAfter(many, '\x1b]0;', 'x'.repeat(100_000), '\x07').length < 8192)
})

t.test('reads hostile output in linear time', async t => {
  for (const part of ['\x90', '\x1b', '\x1b[', '\x9b0', '\x1b]0;', '\x1bP(', '\x1b('])
    t.ok(modesAfter(part.repeat(200_000), part.repeat(200_000)).length < 8192)
})

t.test('gives a terminal that begins later the modes of one that has seen everything', async t => {
  const output = '\x1b[?1049h\x1b[?1h\x1b=\x1b[?1003;1006h\x1b[?2004h\x1b[?25l\x1b[?1004hvim\x1b[?1003l\x1b[?7l'
  const [whole, later] = [createEmulator({ columns: 80, rows: 24 }), createEmulator({ columns: 80, rows: 24 })]
  whole.write(output)
  for (let at = 0; at <= output.length; at++) {
    later.reset()
    later.write(modesAfter(output.slice(0, at)) + output.slice(at))
    t.same(later.modes, whole.modes, `cut at ${at}`)
    t.equal(later.isAlternate, whole.isAlternate)
  }
})
