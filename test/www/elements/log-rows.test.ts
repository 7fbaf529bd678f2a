import t from 'tap'
import { cellsOf, createRowIndex } from '../../../www/elements/log-rows.js'

t.test('without wrapping a line is a row', async t => {
  const index = createRowIndex(null)
  for (const cells of [0, 500, 3]) index.push(cells)
  t.equal(index.rows, 3)
  t.same([0, 1, 2].map(index.lineAt), [0, 1, 2])
})

t.test('wrapped lines take the rows that their cells need', async t => {
  const index = createRowIndex(10)
  for (const cells of [0, 10, 11, 35]) index.push(cells)
  t.equal(index.rows, 1 + 1 + 2 + 4)
  t.same([0, 1, 2, 3, 4].map(index.rowOf), [0, 1, 2, 4, 8])
  t.same([0, 1, 2, 3, 4, 5, 6, 7, 8, 100].map(index.lineAt), [0, 1, 2, 2, 3, 3, 3, 3, 3, 3])
})

t.test('an empty log has no rows', async t => {
  const index = createRowIndex(80)
  t.equal(index.rows, 0)
  t.equal(index.lineAt(0), 0)
})

t.test('cells of characters', async t => {
  for (const [text, cells] of [
    ['', 0], ['abc', 3], ['é', 1], ['e\u0301', 1], ['你好', 4], ['한', 2], ['🚀', 2], ['\tx', 9], ['abc\tx', 9],
    ['─│', 2]
  ] as const) {
    t.equal(cellsOf(text), cells, JSON.stringify(text))
  }
})
