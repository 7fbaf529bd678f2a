import t from 'tap'
import { timeOfLine } from '../../lib/shared/line-time.js'

const now = Date.parse('2026-11-21T12:00:00Z')

t.test('a time without a zone is in the given zone', async t => {
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
  t.equal(
    timeOfLine('2026-11-21 10:04:11', now),
    new Date(2026, 10, 21, 10, 4, 11).getTime(),
    'otherwise in the local zone'
  )
  t.equal(timeOfLine('no time', now, 0), null)
})

const iso = (text: string): string | null => {
  const time = timeOfLine(text, now)
  return time === null ? null : new Date(time).toISOString()
}
const local = (...parts: [number, number, number, number, number, number, number?]): string =>
  new Date(...parts).toISOString()

t.test('reads the time of a line', async t => {
  for (const [text, expected] of [
    ['2026-11-21T10:04:11.123Z GET /', '2026-11-21T10:04:11.123Z'],
    ['2026-11-21T10:04:11+02:00 GET /', '2026-11-21T08:04:11.000Z'],
    ['2026-11-21 10:04:11,123 +0200 [main] INFO', '2026-11-21T08:04:11.123Z'],
    ['[2026-11-21T10:04:11.123456789Z] x', '2026-11-21T10:04:11.123Z'],
    ['\x1b[90m2026-11-21T10:04:11Z\x1b[0m x', '2026-11-21T10:04:11.000Z'],
    ['level=info ts=2026-11-21T10:04Z', '2026-11-21T10:04:00.000Z'],
    ['10.0.0.1 - - [21/Nov/2026:10:04:11 +0100] "GET / HTTP/1.1" 200', '2026-11-21T09:04:11.000Z'],
    ['{"level":30,"time":1795262651123,"msg":"x"}', new Date(1795262651123).toISOString()],
    ['{"ts":1795262651.5,"msg":"x"}', new Date(1795262651500).toISOString()],
    ['{"msg":"x","timestamp":"2026-11-21T10:04:11Z"}', '2026-11-21T10:04:11.000Z'],
    ['2026/11/21 10:04:11 [error] 12#12: x', local(2026, 10, 21, 10, 4, 11)],
    ['2026-11-21 10:04:11.5 x', local(2026, 10, 21, 10, 4, 11, 500)],
    ['Nov 21 10:04:11 host sshd[1]: x', local(2026, 10, 21, 10, 4, 11)],
    ['<34>Nov  1 10:04:11 host su: x', local(2026, 10, 1, 10, 4, 11)],
    ['Dec 24 10:04:11 host x', local(2025, 11, 24, 10, 4, 11)],
    ['    at Object.<anonymous> (/srv/app.js:10:14)', null],
    ['listening on 12:34', null],
    ['2026-13-41T10:04:11Z', null],
    ['', null]
  ] as const) {
    t.equal(iso(text), expected, text)
  }
})

t.test('searches only the beginning of a line', async t => {
  t.equal(timeOfLine(`${'x'.repeat(400)} 2026-11-21T10:04:11Z`, now), null)
})
