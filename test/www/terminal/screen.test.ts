import t from 'tap'
import { createLine } from '../../../www/terminal/cells.js'
import { createHistory } from '../../../www/terminal/screen.js'

t.test('keeps the newest lines and returns the dropped ones', async t => {
  const history = createHistory(3)
  const lines = Array.from({ length: 5 }, () => createLine(1))
  t.same(
    lines.slice(0, 3).map(line => history.push(line)),
    [undefined, undefined, undefined]
  )
  t.equal(history.push(lines[3] as never), lines[0])
  t.equal(history.push(lines[4] as never), lines[1])
  t.equal(history.length, 3)
  t.equal(history.dropped, 2)
  t.ok([0, 1, 2].every(index => history.at(index) === lines[index + 2]))
  t.ok(history.lines().every((line, index) => line === lines[index + 2]))
  history.clear()
  t.equal(history.length, 0)
  t.equal(history.dropped, 5, 'numbering continues')
})

t.test('keeps no lines if the capacity is 0', async t => {
  const history = createHistory(0)
  const line = createLine(1)
  t.equal(history.push(line), line)
  t.equal(history.length, 0)
})
