import t from 'tap'
import { durationOf, humanDuration, minuteOf, relativeTime, splitList, wrap } from '../../../lib/cli/terminal/words.js'

for (const [ms, expected] of [
  [0, '0.0s'],
  [1234, '1.2s'],
  [12_345, '12s'],
  [59_600, '60s'],
  [84_000, '1m 24s'],
  [3_600_000, '1h 0m']
] as const) {
  t.test(`humanDuration: ${ms} is ${expected}`, async t => t.equal(humanDuration(ms), expected))
}

const now = Date.parse('2026-05-10T12:00:00.000Z')
for (const [at, expected] of [
  [null, ''],
  ['2026-05-10T11:59:59.900Z', 'now'],
  ['2026-05-10T12:00:20.000Z', 'now'],
  ['2026-05-10T11:59:18.000Z', '42s ago'],
  ['2026-05-10T11:57:00.000Z', '3m ago'],
  ['2026-05-10T07:00:00.000Z', '5h ago'],
  ['2026-05-03T12:00:00.000Z', '7d ago'],
  ['2026-01-03T12:00:00.000Z', '2026-01-03'],
  ['2027-01-03T12:00:00.000Z', '2027-01-03']
] as const) {
  t.test(`relativeTime: ${at} is "${expected}"`, async t => t.equal(relativeTime(at, now), expected))
}

for (const [text, expected] of [
  ['90s', 90_000],
  ['10m', 600_000],
  ['1.5h', 5_400_000],
  ['1w', 604_800_000],
  ['10', null],
  ['10 m', null],
  ['-1m', null],
  ['1mo', null]
] as const) {
  t.test(`durationOf: "${text}" is ${expected}`, async t => t.equal(durationOf(text), expected))
}

const cases: Array<[text: string, items: string[]]> = [
  ['', []],
  ['*.map', ['*.map']],
  ['*.map,docs/**', ['*.map', 'docs/**']],
  [' *.map , , docs ', ['*.map', 'docs']],
  ['*.{map,txt},docs', ['*.{map,txt}', 'docs']],
  ['{a,{b,c}},d', ['{a,{b,c}}', 'd']],
  ['a\\,b,c', ['a\\,b', 'c']],
  ['\\{a,b\\}', ['\\{a', 'b\\}']],
  ['a},b', ['a}', 'b']]
]
for (const [text, items] of cases) t.test(`splitList: ${text}`, async t => t.same(splitList(text), items))

t.test('minuteOf formats an instant to the minute', async t =>
  t.equal(minuteOf('2026-11-23T18:00:12.345Z'), '2026-11-23 18:00 UTC')
)

t.test('breaks between words', async t => {
  t.strictSame(wrap('one two three', 7), ['one two', 'three'])
  t.strictSame(wrap('one', 2), ['one'], 'a longer word has its own line')
  t.strictSame(wrap('', 10), [''])
})
