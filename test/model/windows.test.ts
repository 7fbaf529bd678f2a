import t from 'tap'
import { openingAt, readWindows, type Windows, windowWords } from '../../lib/model/windows.js'

const office: Windows = { allow: [{ days: 'mon-thu', from: '09:00', to: '16:00' }], freeze: [], tz: 'Europe/Berlin' }

/** Whether it is open at a moment; if not, when it opens. */
function at(windows: Windows, moment: string): string {
  const opening = openingAt(windows, Date.parse(moment))
  if (opening.isOpen) return 'open'
  return opening.opensAtMs === null ? 'never' : new Date(opening.opensAtMs).toISOString().slice(0, 16)
}

const cases: Array<[what: string, windows: Windows, moment: string, expected: string]> = [
  ['the first minute', office, '2026-11-30T08:00:00Z', 'open'],
  ['a millisecond before', office, '2026-11-30T07:59:59.999Z', '2026-11-30T08:00'],
  ['the last moment', office, '2026-11-30T14:59:59.999Z', 'open'],
  ['the end', office, '2026-11-30T15:00:00Z', '2026-12-01T08:00'],
  ['Thursday evening: Friday to Sunday are left out', office, '2026-12-03T15:00:00Z', '2026-12-07T08:00'],
  ['summer time', office, '2026-07-06T07:00:00Z', 'open'],
  [
    'in another zone the same moment is another time',
    { ...office, tz: 'Asia/Kolkata' },
    '2026-11-30T03:30:00Z',
    'open'
  ],
  ['far east of Greenwich', { ...office, tz: 'Pacific/Auckland' }, '2026-11-29T20:00:00Z', 'open'],
  [
    'days that wrap around the week',
    { ...office, allow: [{ days: 'fri-mon', from: '00:00', to: '24:00' }] },
    '2026-12-01T12:00:00Z',
    '2026-12-03T23:00'
  ],
  [
    'over midnight, the part of the next day belongs to the day before',
    { ...office, allow: [{ days: 'fri', from: '22:00', to: '04:00' }] },
    '2026-12-05T02:30:00Z',
    'open'
  ],
  [
    'over midnight, not before that day',
    { ...office, allow: [{ days: 'fri', from: '22:00', to: '04:00' }] },
    '2026-12-04T02:30:00Z',
    '2026-12-04T21:00'
  ],
  [
    'an hour that does not exist closes at its end',
    { ...office, allow: [{ days: 'sun', from: '01:00', to: '02:30' }] },
    '2026-03-29T01:00:00Z',
    '2026-04-04T23:00'
  ],
  [
    'a window that begins in an hour that does not exist begins at its end',
    { ...office, allow: [{ days: 'sun', from: '02:30', to: '04:00' }] },
    '2026-03-29T00:30:00Z',
    '2026-03-29T01:00'
  ],
  [
    'the same in New York',
    { allow: [{ days: 'sun', from: '02:30', to: '05:00' }], freeze: [], tz: 'America/New_York' },
    '2026-03-08T06:00:00Z',
    '2026-03-08T07:00'
  ],
  [
    'an hour that exists twice is open twice',
    { ...office, allow: [{ days: 'sun', from: '02:00', to: '03:00' }] },
    '2026-10-25T01:30:00Z',
    'open'
  ],
  [
    'half an hour of summer time in Lord Howe',
    { allow: [{ days: 'sun', from: '02:10', to: '04:00' }], freeze: [], tz: 'Australia/Lord_Howe' },
    '2026-10-03T15:20:00Z',
    '2026-10-03T15:30'
  ],
  [
    'a freeze includes its last day, and ends into a window',
    { allow: [], freeze: [{ from: '2026-12-20', to: '2027-01-03', reason: 'Christmas' }], tz: 'Europe/Berlin' },
    '2027-01-03T22:59:00Z',
    '2027-01-03T23:00'
  ],
  [
    'a freeze over windows',
    { ...office, freeze: [{ from: '2026-12-01', to: '2026-12-31', reason: 'audit' }] },
    '2026-12-15T09:00:00Z',
    '2027-01-04T08:00'
  ],
  [
    'a freeze of years',
    { ...office, freeze: [{ from: '2026-12-01', to: '2036-12-31', reason: 'moth-balled' }] },
    '2026-12-15T09:00:00Z',
    'never'
  ]
]

t.test('windows are open, or open again', async t => {
  for (const [what, windows, moment, expected] of cases) t.equal(at(windows, moment), expected, what)
})

t.test('the next opening is the first open moment, whatever the zone', async t => {
  // Weeks in which the clock is set, but in Kolkata.
  const weeks = [
    ['Europe/Berlin', '2026-03-25', '2026-04-02'],
    ['America/New_York', '2026-03-04', '2026-03-12'],
    ['Asia/Kolkata', '2026-03-25', '2026-04-02'],
    ['Australia/Lord_Howe', '2026-04-03', '2026-04-06'],
    ['Australia/Lord_Howe', '2026-10-02', '2026-10-05'],
    ['Europe/Berlin', '2026-10-23', '2026-10-26'],
    ['America/New_York', '2026-10-30', '2026-11-02'],
    ['America/Havana', '2026-10-30', '2026-11-02'],
    ['Africa/Casablanca', '2026-02-13', '2026-02-16']
  ] as const
  for (const [tz, from, to] of weeks) {
    const windows: Windows = {
      allow: [
        // Before a change, in an hour that comes twice or not at all, and one into whose middle a clock is set back.
        { days: 'sat-sun', from: '00:15', to: '00:45' },
        { days: 'sat-sun', from: '01:30', to: '02:15' },
        { days: 'sat-sun', from: '02:45', to: '03:00' },
        { days: 'wed', from: '23:00', to: '00:30' }
      ],
      freeze: [{ from: '2026-03-26', to: '2026-03-26', reason: 'audit' }],
      tz
    }
    const wrong: string[] = []
    const step = 15 * 60_000
    // Walks back from the end, so that the next open quarter of an hour is known.
    let next: number | null = null
    for (let ms = Date.parse(to); ms > Date.parse(from); ms -= step) {
      const opening = openingAt(windows, ms)
      if (opening.isOpen) next = ms
      else if (next !== null && opening.opensAtMs !== next) wrong.push(`${new Date(ms).toISOString()} in ${tz}`)
    }
    t.same(wrong, [], tz)
  }
})

t.test('reads windows, and refuses what it does not understand', async t => {
  const read = (change: object) => readWindows({ ...office, ...change }, 'windows')
  t.same(read({}), office)
  t.equal(windowWords(office), 'mon-thu 09:00-16:00 (Europe/Berlin)')
  const day = (days: string) => ({ allow: [{ days, from: '09:00', to: '16:00' }] })
  const time = (from: string, to = '16:00') => ({ allow: [{ days: 'mon', from, to }] })
  for (const change of [
    { allow: [] },
    { tz: 'Europe/Nowhere' },
    { tz: '' },
    day('monday'),
    day('mon-'),
    day('mon-tue-wed'),
    time('9:00'),
    time('25:00'),
    time('24:00'),
    time('16:00'),
    { freeze: [{ from: '2026-02-30', to: '2026-03-01', reason: 'x' }] },
    { freeze: [{ from: '2026-03-02', to: '2026-03-01', reason: 'x' }] },
    { freeze: [{ from: '2026-03-01', to: '2026-03-01', reason: ' ' }] },
    { zone: 'UTC' }
  ])
    t.throws(() => read(change), { code: 'invalid_field' }, JSON.stringify(change))
})
