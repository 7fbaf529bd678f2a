import t from 'tap'
import { cellsOf } from '../../../../www/elements/logs/cells.js'

t.test('counts the cells of characters', async t => {
  for (const [text, cells] of [
    ['', 0],
    ['abc', 3],
    ['é', 1],
    ['e\u0301', 1],
    ['你好', 4],
    ['한', 2],
    ['🚀', 2],
    ['\tx', 9],
    ['abc\tx', 9],
    ['─│', 2]
  ] as const) {
    t.equal(cellsOf(text), cells, JSON.stringify(text))
  }
})
