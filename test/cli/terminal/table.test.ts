import t from 'tap'
import { renderTable, type Column } from '../../../lib/cli/terminal/table.js'

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
  t.match(renderTable(rows, columns, 5)[2], /\/srv\/…/)
})

t.test('renderTable lets no cell move the cursor', async t => {
  const [, line] = renderTable([{ name: 'a\x1b[2J\nb', size: '', path: '' }], columns, undefined)
  t.equal(line, 'a b         \x1b[2m\x1b[22m')
})
