import t from 'tap'
import { createEmulator, type Emulator } from '../../../www/terminal/emulator.js'
import {
  columnsIn,
  everything,
  findText,
  lineAtPlace,
  type Range,
  rangeOf,
  stepped,
  textIn,
  wordAt
} from '../../../www/terminal/selection.js'

function emulatorWith(text: string, columns = 10, rows = 4, historyLines = 3): Emulator {
  const emulator = createEmulator({ columns, rows, historyLines })
  emulator.write(text)
  return emulator
}

const range = (fromLine: number, fromColumn: number, toLine: number, toColumn: number): Range => ({
  from: { line: fromLine, column: fromColumn },
  to: { line: toLine, column: toColumn }
})

const texts: Array<[what: string, written: string, marked: Range, text: string]> = [
  ['copies a part of a line', 'hello you', range(0, 1, 0, 4), 'ell'],
  ['stops at the end of a line', 'hello', range(0, 3, 0, 10), 'lo'],
  ['copies two lines', 'one\r\ntwo', range(0, 1, 1, 2), 'ne\ntw'],
  ['removes blanks at the end of a line', 'a  \r\nb', range(0, 0, 1, 1), 'a\nb'],
  ['keeps an empty line', 'a\r\n\r\nb', range(0, 0, 2, 1), 'a\n\nb'],
  ['copies a wrapped line as one', 'abcdefghijklm', range(0, 8, 1, 2), 'ijkl'],
  ['keeps blanks within a wrapped line', 'abcdefgh  klm', range(0, 6, 1, 2), 'gh  kl'],
  ['copies skipped cells as blanks', 'a\x1b[4Gb', range(0, 0, 0, 5), 'a  b'],
  ['leaves out a wide character whose left half is not selected', '部署x', range(0, 1, 0, 5), '署x'],
  [
    'leaves out lines that the history has dropped',
    '1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9',
    range(0, 0, 3, 1),
    '3\n4'
  ]
]

for (const [what, written, marked, text] of texts) {
  t.test(what, async t => t.equal(textIn(emulatorWith(written), marked), text))
}

const words: Array<[what: string, written: string, line: number, column: number, word: string]> = [
  ['selects a word', 'see hello now', 0, 5, 'hello'],
  ['selects a whole path', '/a/b.c-d_e ok', 0, 3, '/a/b.c-d_e'],
  ['selects a single separator', 'a(b)', 0, 1, '('],
  ['selects a word that spans wrapped lines', 'see abcdefghij', 0, 8, 'abcdefghij'],
  ['… also from its second half', 'see abcdefghij', 1, 1, 'abcdefghij'],
  ['stops at a line end', 'abcdefghij\r\nklm', 1, 1, 'klm'],
  ['selects wide characters', 'a 部署 b', 0, 3, '部署'],
  ['selects the last word after the last column', 'abcdefghij', 0, 10, 'abcdefghij']
]

for (const [what, written, line, column, word] of words) {
  t.test(`double click: ${what}`, async t => {
    const emulator = emulatorWith(written)
    t.equal(textIn(emulator, wordAt(emulator, { line, column })), word)
  })
}

t.test('triple click selects a line with its continuation lines', async t => {
  const emulator = emulatorWith('abcdefghijklmnopqrstuv\r\nx')
  for (const line of [0, 1, 2])
    t.equal(textIn(emulator, lineAtPlace(emulator, { line, column: 3 })), 'abcdefghijklmnopqrstuv')
  t.equal(textIn(emulator, lineAtPlace(emulator, { line: 3, column: 0 })), 'x')
})

t.test('orders the places of a range and returns its columns', async t => {
  t.same(rangeOf({ line: 2, column: 1 }, { line: 1, column: 5 }), range(1, 5, 2, 1))
  t.same(rangeOf({ line: 1, column: 5 }, { line: 1, column: 1 }), range(1, 1, 1, 5))
  t.same(columnsIn(range(1, 5, 3, 2), 0, 10), null)
  t.same(columnsIn(range(1, 5, 3, 2), 1, 10), { from: 5, to: 10 })
  t.same(columnsIn(range(1, 5, 3, 2), 2, 10), { from: 0, to: 10 })
  t.same(columnsIn(range(1, 5, 3, 2), 3, 10), { from: 0, to: 2 })
  t.same(columnsIn(range(1, 5, 1, 5), 1, 10), null)
})

t.test('selecting everything ends at the last line that is not empty', async t => {
  const emulator = emulatorWith('1\r\n2\r\n3\r\n4\r\n5\r\n\r\n', 10, 4, 3)
  t.equal(textIn(emulator, everything(emulator)), '1\n2\n3\n4\n5')
  t.equal(textIn(emulatorWith(''), everything(emulatorWith(''))), '')
})

t.test('a step crosses the ends of lines and stops at the first and last line', async t => {
  const lines = emulatorWith('one\r\ntwo', 5, 2)
  for (const [line, column, step, toLine, toColumn] of [
    [0, 2, 'mark-left', 0, 1],
    [1, 0, 'mark-left', 0, 5],
    [0, 0, 'mark-left', 0, 0],
    [0, 2, 'mark-right', 0, 3],
    [0, 5, 'mark-right', 1, 0],
    [1, 5, 'mark-right', 1, 5],
    [1, 3, 'mark-up', 0, 3],
    [0, 3, 'mark-up', 0, 3],
    [0, 3, 'mark-down', 1, 3],
    [1, 3, 'mark-down', 1, 3]
  ] as const) {
    t.same(stepped(lines, { line, column }, step), { line: toLine, column: toColumn }, `${step} from ${line},${column}`)
  }
})

const cases: Array<[what: string, written: string, wanted: string, hits: string[]]> = [
  ['finds all hits, oldest first', 'one two one', 'one', ['0:0 one', '0:8 one']],
  ['ignores case if the wanted text has no capitals', 'Error error', 'error', ['0:0 Error', '0:6 error']],
  ['matches case if the wanted text has capitals', 'Error error', 'Error', ['0:0 Error']],
  ['finds a text that spans wrapped lines', 'abcdefghijkl', 'hijk', ['0:7 hijk']],
  ['finds no text that spans a line end', 'abc\r\ndef', 'cd', []],
  ['finds a text after wide characters', '部署done', 'done', ['0:4 done']],
  ['finds wide characters', 'x部署', '署', ['0:3 署']],
  ['finds a text in the last column', 'abcdefghij', 'j', ['0:9 j']],
  ['finds a text in the first column of a continuation line', 'abcdefghijkl', 'k', ['1:0 k']],
  ['finds nothing for an empty text', 'abc', '', []],
  ['keeps positions if a letter grows in lower case', 'İx', 'x', ['0:1 x']]
]

for (const [what, written, wanted, hits] of cases) {
  t.test(what, async t => {
    const emulator = createEmulator({ columns: 10, rows: 4 })
    emulator.write(written)
    t.same(
      findText(emulator, wanted).map(hit => `${hit.from.line}:${hit.from.column} ${textIn(emulator, hit)}`),
      hits
    )
  })
}

t.test('finds texts in the history, by line number', async t => {
  const emulator = createEmulator({ columns: 10, rows: 2, historyLines: 3 })
  emulator.write(Array.from({ length: 9 }, (_, line) => `line ${line}`).join('\r\n'))
  t.same(
    findText(emulator, 'line').map(({ from }) => from.line),
    [4, 5, 6, 7, 8]
  )
})
