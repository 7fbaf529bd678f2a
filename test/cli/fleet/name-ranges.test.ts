import t from 'tap'
import { nameRanges } from '../../../lib/cli/fleet/name-ranges.js'

t.test('names that count up are joined, and a long list is cut', async t => {
  const many = Array.from({ length: 20 }, (_, at) => `web-${at + 1}`)
  const cases: Array<[string[], string]> = [
    [[], ''],
    [['a1'], 'a1'],
    [['plant-a3', 'plant-a2', 'plant-a4'], 'plant-a2…4'],
    [['web-1', 'web-2'], 'web-1, web-2'],
    [many, 'web-1…20'],
    [['web-1', 'web-3'], 'web-1, web-3'],
    [['web', 'db'], 'db, web'],
    [['a01', 'a02', 'a03'], 'a01…03'],
    [['a09', 'a10', 'a11'], 'a09…11'],
    [['a9', 'a10', 'a11'], 'a9…11'],
    [['x1.eu', 'x2.eu'], 'x1.eu, x2.eu'],
    [['a', 'c', 'e', 'g', 'i', 'k', 'm', 'o'], 'a, c, e, g, i, k, 2 more'],
    [['a1', 'b1', 'a2', 'b2', 'b3', 'a3'], 'a1…3, b1…3']
  ]
  for (const [names, expected] of cases) t.equal(nameRanges(names), expected, names.join())
})
