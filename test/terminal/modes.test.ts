import t from 'tap'
import { createTerminalModes } from '../../lib/terminal/modes.js'
import { createEmulator } from '../../www/terminal/emulator.js'

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
