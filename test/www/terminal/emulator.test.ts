import t from 'tap'
import { createEmulator, createFeed } from '../../../www/terminal/emulator.js'
import { rowsOf } from './screen-table.js'

/** A clock that advances with each written character. */
function stage(budgetMs: number) {
  let nowMs = 0
  const written: string[] = []
  const feed = createFeed({
    write: text => {
      written.push(text)
      nowMs += text.length / 1024
    },
    now: () => nowMs,
    budgetMs
  })
  return { feed, written }
}

t.test('writes texts in order and calls back after the last character of each', async t => {
  const { feed, written } = stage(1000)
  const told: string[] = []
  feed.push('a'.repeat(20_000), () => told.push(`a after ${written.join('').length}`))
  feed.push('b', () => told.push(`b after ${written.join('').length}`))
  feed.push('c')
  feed.run()
  t.equal(written.join(''), `${'a'.repeat(20_000)}bc`)
  t.same(told, ['a after 20000', 'b after 20001'])
  t.ok(feed.isEmpty)
})

t.test('a run stops at its time limit, and the next one continues there', async t => {
  const { feed, written } = stage(16)
  feed.push('x'.repeat(100_000))
  feed.run()
  t.equal(written.join('').length, 16 * 1024)
  t.notOk(feed.isEmpty)
  let runs = 1
  for (; !feed.isEmpty; runs++) feed.run()
  t.equal(written.join('').length, 100_000)
  t.equal(runs, 7)
})

t.test('writes at least one slice to a slow screen', async t => {
  const { feed, written } = stage(0)
  feed.push('x'.repeat(10_000))
  feed.run()
  t.equal(written.join('').length, 8192)
})

t.test('does not call back after it is cleared', async t => {
  const { feed, written } = stage(1)
  feed.push('x', () => t.fail('told'))
  feed.clear()
  feed.run()
  t.same(written, [])
  t.ok(feed.isEmpty)
})

t.test('saves and restores titles', async t => {
  const titles: string[] = []
  const emulator = createEmulator({ columns: 8, rows: 2, onTitle: title => titles.push(title) })
  emulator.write('\x1b]0;one\x07\x1b]1;icon\x07\x1b[22;0t\x1b]2;two; and more\x1b\\\x1b[23;0t\x1b[23;0t\x1bc')
  t.same(titles, ['one', 'two; and more', 'one', ''])
})

t.test('rings the bell, except within a title', async t => {
  let rings = 0
  const emulator = createEmulator({ columns: 8, rows: 2, onBell: () => rings++ })
  emulator.write('\x07a\x1b]2;t\x07\x07')
  t.equal(rings, 2)
})

t.test('sets the modes that keys, the mouse and the renderer need', async t => {
  const emulator = createEmulator({ columns: 8, rows: 2 })
  emulator.write('\x1b[?1;5;1002;1004;1006;2004;2026h\x1b=\x1b[?25l')
  t.match(emulator.modes, {
    applicationCursor: true,
    applicationKeypad: true,
    reverseScreen: true,
    mouse: 1002,
    mouseSgr: true,
    focusReports: true,
    bracketedPaste: true,
    synchronized: true,
    cursorVisible: false
  })
  emulator.write('\x1b[?1002l\x1b[?2026l\x1b>')
  t.match(emulator.modes, { mouse: 0, synchronized: false, applicationKeypad: false })
})

t.test('sets the shape of the cursor', async t => {
  const emulator = createEmulator({ columns: 8, rows: 2 })
  const shapes = [0, 1, 2, 3, 4, 5, 6, 7].map(style => {
    emulator.write(`\x1b[${style} q`)
    return `${emulator.cursor.shape}${emulator.cursor.blinks ? ' blinks' : ''}`
  })
  t.same(shapes, ['block', 'block blinks', 'block', 'underline blinks', 'underline', 'bar blinks', 'bar', 'bar'])
})

t.test('reports known colours and never changes them', async t => {
  const replies: string[] = []
  const emulator = createEmulator({
    columns: 8,
    rows: 2,
    onReply: text => replies.push(text),
    colorOf: which => (which === 'background' ? [10, 12, 14] : which === 1 ? [255, 0, 16] : null)
  })
  emulator.write('\x1b]11;?\x07\x1b]10;?\x07\x1b]11;#fff\x07\x1b]4;1;?;2;?;300;?\x07')
  t.same(replies, ['\x1b]11;rgb:0a0a/0c0c/0e0e\x1b\\', '\x1b]4;1;rgb:ffff/0000/1010\x1b\\'])
})

t.test('numbers lines permanently and keeps 10,000 of them', async t => {
  const emulator = createEmulator({ columns: 8, rows: 3 })
  emulator.write(Array.from({ length: 12_000 }, (_, line) => `l${line}\r\n`).join(''))
  t.equal(emulator.historyLength, 10_000)
  t.equal(emulator.firstLine, 12_000 - 10_000 - 2)
  t.equal(rowsOf(emulator, 'history')[0], `l${emulator.firstLine}`)
  const first = emulator.firstLine
  emulator.write('\x1b[?1049h')
  t.equal(emulator.firstLine, first + 10_000, 'the alternate screen has the line numbers of the main screen')
  t.equal(emulator.historyLength, 0)
})

t.test('changes the version of a line only if the line is written to', async t => {
  const emulator = createEmulator({ columns: 8, rows: 3 })
  const versions = (): number[] => [0, 1, 2].map(row => emulator.line(row).version)
  const before = versions()
  emulator.write('\x1b[2Hx')
  const after = versions()
  t.same(
    after.map((version, row) => version !== before[row]),
    [false, true, false]
  )
})

t.test('reset clears everything, including an incomplete sequence', async t => {
  const emulator = createEmulator({ columns: 8, rows: 2 })
  emulator.write('1\r\n2\r\n3\x1b[31;')
  emulator.reset()
  emulator.write('4mx')
  t.same(rowsOf(emulator), ['4mx', ''])
  t.equal(emulator.historyLength, 0)
})

t.test('survives 2 MB of random bytes and changes of size', async t => {
  let seed = 7
  const random = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff) % below
  const emulator = createEmulator({ columns: 40, rows: 10, historyLines: 50 })
  const bytes = [
    '\x1b[',
    '\x1b',
    ';',
    '部',
    'é',
    '\u0301',
    '?',
    'h',
    'l',
    'm',
    'r',
    'H',
    'J',
    'L',
    'M',
    'P',
    '@',
    'S',
    'T',
    '\n',
    '1049',
    '9'
  ]
  for (let round = 0; round < 400; round++) {
    let text = ''
    for (let at = 0; at < 1000; at++)
      text += random(3) === 0 ? String.fromCharCode(random(0x180)) : bytes[random(bytes.length)]
    emulator.write(text)
    if (round % 10 === 0) emulator.resize(1 + random(90), 1 + random(40))
    const { cursor, columns, rows, historyLength } = emulator
    if (cursor.x >= columns || cursor.y >= rows) t.fail('the cursor left the screen')
    for (let line = 0; line < historyLength + rows; line++) {
      if (emulator.line(line).cells.length !== columns * 3) t.fail(`line ${line} of round ${round} has another width`)
    }
  }
  t.pass('still there')
})
