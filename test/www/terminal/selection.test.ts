import t from 'tap'
import { createEmulator } from '../../../www/terminal/emulator.js'
import type { Emulator } from '../../../www/terminal/emulator.js'
import { columnsIn, everything, lineAtPlace, rangeOf, stepped, textIn, wordAt } from '../../../www/terminal/selection.js'
import type { Range } from '../../../www/terminal/selection.js'

function emulatorWith(text: string, columns = 10, rows = 4, historyLines = 3): Emulator {
  const emulator = createEmulator({ columns, rows, historyLines })
  emulator.write(text)
  return emulator
}

const range = (fromLine: number, fromColumn: number, toLine: number, toColumn: number): Range => ({
  from: { line: fromLine, column: fromColumn }, to: { line: toLine, column: toColumn }
})

const texts: Array<[what: string, written: string, marked: Range, text: string]> = [
  ['a part of a line', 'hello you', range(0, 1, 0, 4), 'ell'],
  ['beyond its end', 'hello', range(0, 3, 0, 10), 'lo'],
  ['two lines', 'one\r\ntwo', range(0, 1, 1, 2), 'ne\ntw'],
  ['blanks at the end of a line are left out', 'a  \r\nb', range(0, 0, 1, 1), 'a\nb'],
  ['an empty line between', 'a\r\n\r\nb', range(0, 0, 2, 1), 'a\n\nb'],
  ['a wrapped line is one', 'abcdefghijklm', range(0, 8, 1, 2), 'ijkl'],
  ['blanks within one stay', 'abcdefgh  klm', range(0, 6, 1, 2), 'gh  kl'],
  ['cells that were jumped over are blanks', 'a\x1b[4Gb', range(0, 0, 0, 5), 'a  b'],
  ['a wide character, from its middle', '部署x', range(0, 1, 0, 5), '署x'],
  ['what is gone is left out', '1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9', range(0, 0, 3, 1), '3\n4']
]

for (const [what, written, marked, text] of texts) {
  t.test(what, async t => t.equal(textIn(emulatorWith(written), marked), text))
}

const words: Array<[what: string, written: string, line: number, column: number, word: string]> = [
  ['a word', 'see hello now', 0, 5, 'hello'],
  ['a path holds together', '/a/b.c-d_e ok', 0, 3, '/a/b.c-d_e'],
  ['a separator is one by itself', 'a(b)', 0, 1, '('],
  ['over the end of a wrapped line', 'see abcdefghij', 0, 8, 'abcdefghij'],
  ['… from its other half', 'see abcdefghij', 1, 1, 'abcdefghij'],
  ['not over a line end', 'abcdefghij\r\nklm', 1, 1, 'klm'],
  ['wide characters', 'a 部署 b', 0, 3, '部署'],
  ['beyond the last column', 'abcdefghij', 0, 10, 'abcdefghij']
]

for (const [what, written, line, column, word] of words) {
  t.test(`double click: ${what}`, async t => {
    const emulator = emulatorWith(written)
    t.equal(textIn(emulator, wordAt(emulator, { line, column })), word)
  })
}

t.test('triple click: the line with all that it was wrapped into', async t => {
  const emulator = emulatorWith('abcdefghijklmnopqrstuv\r\nx')
  for (const line of [0, 1, 2]) t.equal(textIn(emulator, lineAtPlace(emulator, { line, column: 3 })), 'abcdefghijklmnopqrstuv')
  t.equal(textIn(emulator, lineAtPlace(emulator, { line: 3, column: 0 })), 'x')
})

t.test('ranges have an order, and columns', async t => {
  t.same(rangeOf({ line: 2, column: 1 }, { line: 1, column: 5 }), range(1, 5, 2, 1))
  t.same(rangeOf({ line: 1, column: 5 }, { line: 1, column: 1 }), range(1, 1, 1, 5))
  t.same(columnsIn(range(1, 5, 3, 2), 0, 10), null)
  t.same(columnsIn(range(1, 5, 3, 2), 1, 10), { from: 5, to: 10 })
  t.same(columnsIn(range(1, 5, 3, 2), 2, 10), { from: 0, to: 10 })
  t.same(columnsIn(range(1, 5, 3, 2), 3, 10), { from: 0, to: 2 })
  t.same(columnsIn(range(1, 5, 1, 5), 1, 10), null)
})

t.test('everything ends with the last line that has something', async t => {
  const emulator = emulatorWith('1\r\n2\r\n3\r\n4\r\n5\r\n\r\n', 10, 4, 3)
  t.equal(textIn(emulator, everything(emulator)), '1\n2\n3\n4\n5')
  t.equal(textIn(emulatorWith(''), everything(emulatorWith(''))), '')
})

t.test('a step leads on over the ends of lines, and stops at the ends of everything', async t => {
  const lines = emulatorWith('one\r\ntwo', 5, 2)
  for (const [line, column, step, toLine, toColumn] of [
    [0, 2, 'mark-left', 0, 1], [1, 0, 'mark-left', 0, 5], [0, 0, 'mark-left', 0, 0],
    [0, 2, 'mark-right', 0, 3], [0, 5, 'mark-right', 1, 0], [1, 5, 'mark-right', 1, 5],
    [1, 3, 'mark-up', 0, 3], [0, 3, 'mark-up', 0, 3], [0, 3, 'mark-down', 1, 3], [1, 3, 'mark-down', 1, 3]
  ] as const) {
    t.same(stepped(lines, { line, column }, step), { line: toLine, column: toColumn }, `${step} from ${line},${column}`)
  }
})
