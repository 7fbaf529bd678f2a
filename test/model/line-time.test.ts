import t from 'tap'
import { timeOfLine } from '../../lib/model/line-time.js'

const now = Date.parse('2026-11-21T12:00:00Z')

t.test('a time without a zone is one of the zone that is given', async t => {
  for (const [text, zoneMinutes, expected] of [
    ['2026-11-21 10:04:11 x', 0, '2026-11-21T10:04:11.000Z'],
    ['2026-11-21 10:04:11 x', 480, '2026-11-21T02:04:11.000Z'],
    ['2026/11/21 10:04:11 [error] x', -330, '2026-11-21T15:34:11.000Z'],
    ['Nov 21 10:04:11 host x', 60, '2026-11-21T09:04:11.000Z'],
    ['Dec 24 10:04:11 host x', 60, '2025-12-24T09:04:11.000Z'],
    ['2026-11-21T10:04:11Z x', 480, '2026-11-21T10:04:11.000Z'],
    ['2026-11-21T10:04:11+01:00 x', 480, '2026-11-21T09:04:11.000Z'],
    ['[21/Nov/2026:10:04:11 +0000] x', 480, '2026-11-21T10:04:11.000Z']
  ] as const) {
    t.equal(new Date(timeOfLine(text, now, zoneMinutes) as number).toISOString(), expected, `${text} ${zoneMinutes}`)
  }
  t.equal(timeOfLine('2026-11-21 10:04:11', now), new Date(2026, 10, 21, 10, 4, 11).getTime(), 'else of the own one')
  t.equal(timeOfLine('no time', now, 0), null)
})
