import t from 'tap'
import { formatUptime, successRate, successShare } from '../../lib/machine/status.js'

t.test('shows the uptime in its two largest units', async t => {
  const cases: Array<[number, string]> = [
    [0, '0s'],
    [999, '0s'],
    [5_000, '5s'],
    [125_000, '2m 5s'],
    [120_000, '2m'],
    [3_600_000, '1h'],
    [3_605_000, '1h'],
    [90_061_000, '1d 1h'],
    [86_400_000 * 400, '400d']
  ]
  for (const [ms, text] of cases) t.equal(formatUptime(ms), text)
})

t.test('returns the success rate in percent', async t => {
  t.equal(successRate(0, 0), null)
  t.equal(successRate(2, 1), 66.7)
  t.equal(successRate(3, 0), 100)
  t.equal(successRate(0, 3), 0)
})

t.test('returns the success rate as a share', async t => {
  t.equal(successShare(0, 0), null)
  t.equal(successShare(2, 1), 0.667)
  t.equal(successShare(3, 0), 1)
})
