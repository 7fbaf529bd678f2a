import t from 'tap'
import { type Column, cutToWidth, renderTable, widthOf } from '../../../lib/cli/terminal/columns.js'

interface Row {
  name: string
  size: string
  path: string
}
const columns: Column<Row>[] = [
  { header: 'NAME', cell: row => row.name, shrinkTo: 4 },
  { header: 'SIZE', cell: row => row.size, align: 'right' },
  { header: 'PATH', cell: row => row.path, shrinkTo: 6, paint: text => `\x1b[2m${text}\x1b[22m` }
]
const rows: Row[] = [
  { name: '漢字', size: '5', path: '/srv/www/one' },
  { name: 'two', size: '1024', path: '/srv/www/a-longer-one' }
]

t.test('renderTable aligns columns by their width on the terminal', async t => {
  t.strictSame(renderTable(rows, columns, undefined), [
    'NAME  SIZE  PATH',
    '漢字     5  \x1b[2m/srv/www/one\x1b[22m',
    'two   1024  \x1b[2m/srv/www/a-longer-one\x1b[22m'
  ])
})

t.test('renderTable cuts the widest column that may be cut', async t => {
  t.strictSame(renderTable(rows, columns, 24), [
    'NAME  SIZE  PATH',
    '漢字     5  \x1b[2m/srv/www/one\x1b[22m',
    'two   1024  \x1b[2m/srv/www/a-…\x1b[22m'
  ])
})

t.test('renderTable is as narrow as possible if the terminal is too narrow', async t => {
  t.strictSame(
    renderTable(rows, columns, 5).map(line => line.length),
    [16, 29, 28].map((_, at) => renderTable(rows, columns, 1)[at]?.length)
  )
  t.match(renderTable(rows, columns, 5)[2], /\/s…/)
})

t.test('renderTable leaves columns out, and lets the last cell continue, where a terminal is narrow', async t => {
  const table: Column<string>[] = [
    { header: 'ID', cell: () => 'proj_1234', drop: 'first' },
    { header: 'NAME', cell: name => name, shrinkTo: 5 },
    { header: 'STATE', cell: () => 'idle' },
    { header: 'PLACE', cell: () => '/srv/www', shrinkTo: 6, drop: 'last' }
  ]
  const lines = (columns: number) => renderTable(['a name'], table, columns)
  t.strictSame(lines(34), ['ID         NAME    STATE  PLACE', 'proj_1234  a name  idle   /srv/www'])
  t.strictSame(lines(33), ['NAME    STATE  PLACE', 'a name  idle   /srv/www'])
  t.strictSame(lines(20), ['NAME   STATE  PLACE', 'a na…  idle   /srv/…'])
  t.strictSame(lines(19), ['NAME    STATE', 'a name  idle'])
  t.strictSame(lines(11), ['NAME  STATE', 'a n…  idle'])
  const wraps: Column<string>[] = [
    { header: 'KEY', cell: () => 'key' },
    { header: 'VALUE', cell: text => text, shrinkTo: 4, wraps: true }
  ]
  t.strictSame(renderTable(['漢字 abcdef'], wraps, 10), ['KEY  VALUE', 'key  漢字', '     abcde', '     f'])
  const sentence: Column<string>[] = [
    { header: 'KEY', cell: () => 'key', shrinkTo: 3 },
    { header: 'STATE', cell: text => text, wraps: true },
    { header: 'PLACE', cell: () => '/srv/www', shrinkTo: 3, drop: 'last' }
  ]
  t.strictSame(
    renderTable(['waits for approval until 18:30'], sentence, 35),
    ['KEY  STATE', 'key  waits for approval until 18:30'],
    'another column is left out before it wraps'
  )
  t.strictSame(
    renderTable(['waits for approval until 18:30'], sentence, 30),
    ['KEY  STATE', 'key  waits for approval until', '     18:30'],
    'it wraps between words'
  )
})

t.test('renderTable lets no cell move the cursor', async t => {
  const [, line] = renderTable([{ name: 'a\x1b[2J\nb', size: '', path: '' }], columns, undefined)
  t.equal(line, 'a b         \x1b[2m\x1b[22m')
})

const widths: Array<[text: string, columns: number]> = [
  ['', 0],
  ['plain', 5],
  ['\x1b[31mred\x1b[39m', 3],
  ['é', 1],
  ['e\u0301', 1],
  ['漢字', 4],
  ['ﾊﾝｶｸ', 4],
  ['한국', 4],
  ['🙂', 2],
  ['👨‍👩‍👧‍👦', 2],
  ['🇩🇪', 2],
  ['a\u200bb', 2],
  ['…', 1]
]
for (const [text, columns] of widths)
  t.test(`widthOf: ${JSON.stringify(text)} takes ${columns}`, async t => t.equal(widthOf(text), columns))

const cuts: Array<[text: string, columns: number, expected: string]> = [
  ['short', 5, 'short'],
  ['longer', 5, 'long…'],
  ['漢字漢字', 5, '漢字…'],
  ['漢字漢字', 4, '漢…'],
  ['👨‍👩‍👧‍👦👨‍👩‍👧‍👦', 3, '👨‍👩‍👧‍👦…'],
  ['abc', 1, '…']
]
for (const [text, columns, expected] of cuts) {
  t.test(`cutToWidth: ${text} to ${columns} is ${expected}`, async t => t.equal(cutToWidth(text, columns), expected))
}
