import t from 'tap'
import { plainStyle } from '../../../www/elements/ansi.js'
import { createLogStyles } from '../../../www/elements/log-styles.js'

t.test('a line begins in the colours that the lines before it left on', async t => {
  const styles = createLogStyles()
  for (const text of ['plain', '\x1b[31mred', 'still red', '\x1b[0mplain again', 'plain']) styles.push(text)
  t.equal(styles.lines, 5)
  t.same([0, 1, 2, 3, 4].map(line => styles.styleOf(line).foreground), [null, null, 1, 1, null])
  t.equal(styles.styleOf(4), plainStyle)
})
