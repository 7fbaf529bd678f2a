import t from 'tap'
import { shownFlag, type OptionRow } from '../../lib/cli/option-table.js'

t.test('the help shows a switch that is on by default with --no-', async t => {
  const cases: Array<[row: OptionRow, expected: string]> = [
    [{ type: 'switch', help: '' }, '--wait'],
    [{ type: 'switch', default: false, help: '' }, '--wait'],
    [{ type: 'switch', default: true, help: '' }, '--no-wait'],
    [{ type: 'text', default: 'yes', help: '' }, '--wait']
  ]
  for (const [row, expected] of cases) t.equal(shownFlag('wait', row), expected)
})
