import t from 'tap'
import { instantOf } from '../../../lib/cli/log/since.js'

const now = new Date(2026, 10, 21, 12, 0, 0).getTime()

t.test('understands durations and times', async t => {
  for (const [text, expected] of [
    ['90s', now - 90_000],
    ['10m', now - 600_000],
    ['2h', now - 7_200_000],
    ['1.5h', now - 5_400_000],
    ['1d', now - 86_400_000],
    ['1w', now - 604_800_000],
    ['08:30', new Date(2026, 10, 21, 8, 30).getTime()],
    ['08:30:15', new Date(2026, 10, 21, 8, 30, 15).getTime()],
    ['2026-11-20', new Date(2026, 10, 20).getTime()],
    ['2026-11-20T10:00', new Date(2026, 10, 20, 10).getTime()],
    ['2026-11-20 10:00', new Date(2026, 10, 20, 10).getTime()],
    ['2026-11-20T10:00:00Z', Date.UTC(2026, 10, 20, 10)],
    ['2026-11-20T10:00:00+02:00', Date.UTC(2026, 10, 20, 8)]
  ] as const) {
    t.equal(instantOf(text, now), expected, text)
  }
})

t.test('refuses any other text', async t => {
  for (const text of [
    '',
    '10',
    'm',
    '-5m',
    '10 m',
    '1y',
    'yesterday',
    '25:00',
    '2026-13-01',
    '2026-11-21T99:00',
    '12'
  ]) {
    t.throws(() => instantOf(text, now), { code: 'usage', message: /--since cannot be/ }, text)
  }
})
