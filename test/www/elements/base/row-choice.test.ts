import '../../../support/without-dom.js'
import t from 'tap'
import { createSelection } from '../../../../www/elements/base/row-choice.js'

const order = ['a', 'b', 'c', 'd', 'e']

t.test('selects single rows, ranges and all rows', async t => {
  const selection = createSelection()
  const steps: Array<[what: string, step: () => void, chosen: string[]]> = [
    ['one', () => selection.toggle('b'), ['b']],
    ['a range down', () => selection.extend('d', order), ['b', 'c', 'd']],
    ['a range up, from where the last one ended', () => selection.extend('a', order), ['a', 'b', 'c', 'd']],
    ['one let go', () => selection.toggle('b'), ['a', 'c', 'd']],
    ['a range is let go like its beginning', () => selection.extend('c', order), ['a', 'd']],
    ['exactly these', () => selection.set(['e']), ['e']],
    ['a range whose beginning is gone is one row', () => selection.extend('b', order), ['e', 'b']],
    ['a range in a list that lacks its beginning', () => selection.extend('d', ['c', 'd']), ['e', 'b', 'd']],
    ['none', () => selection.set([]), []]
  ]
  for (const [what, step, chosen] of steps) {
    step()
    t.same([...selection.ids].sort(), [...chosen].sort(), what)
  }
})
