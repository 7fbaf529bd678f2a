import t from 'tap'
import type { Provenance } from '../../../../lib/model/provenance.js'
import {
  addressWords,
  agoWords,
  clockWords,
  dayWords,
  deploymentWords,
  exactWords,
  inForce,
  isOwnLock,
  maskWords,
  monthWords,
  percentWords,
  spanWords,
  weekdayWords
} from '../../../../www/elements/base/words.js'
import { countWords } from '../../../../www/words/t.js'
import type { ListedLock } from '../../../../lib/model/marks.js'
import { setHolder } from '../../../../www/state/session.js'

const locale = { language: 'en-GB', timeZone: 'UTC' }
const now = Date.parse('2026-11-21T15:00:00Z')

t.test('formats relative times', async t => {
  for (const [at, words] of [
    ['2026-11-21T14:59:30Z', 'just now'],
    ['2026-11-21T15:00:20Z', 'just now'],
    ['2026-11-21T14:58:00Z', '2 min ago'],
    ['2026-11-21T14:00:01Z', '59 min ago'],
    ['2026-11-21T12:30:00Z', '2 h ago'],
    ['2026-11-21T01:05:00Z', 'today 01:05'],
    ['2026-11-20T23:10:00Z', 'yesterday 23:10'],
    ['2026-03-02T08:00:00Z', '2 Mar 08:00'],
    ['2025-12-31T08:00:00Z', '31 Dec 2025 08:00']
  ] as const) {
    t.equal(agoWords(at, now, locale), words, at)
  }
})

t.test('formats the exact time with day, second and zone', async t => {
  t.match(exactWords('2026-11-21T03:22:55Z', locale), /Sat.* 21 Nov 2026.*03:22:55 UTC/)
  t.equal(clockWords('2026-11-21T03:22:55.123Z', locale), '03:22:55.123')
})

t.test('formats durations', async t => {
  for (const [ms, words] of [
    [0, '0 s'],
    [40, '40 ms'],
    [120, '0.1 s'],
    [1234, '1.2 s'],
    [12_900, '12 s'],
    [60_000, '1 min'],
    [185_000, '3 min 5 s'],
    [7_800_000, '2 h 10 min'],
    [273_600_000, '3 d 4 h']
  ] as const) {
    t.equal(spanWords(ms), words, String(ms))
  }
})

t.test('formats counts, secrets and titles of deployments', async t => {
  t.equal(countWords(1, 'file'), '1 file')
  t.equal(countWords(2000, 'file'), '2,000 files')
  t.equal(maskWords('abcdefgh1234'), '••••••••1234')
  t.equal(deploymentWords({ message: 'Fix the footer', triggerSource: 'cli' }), 'Fix the footer')
  t.equal(deploymentWords({ message: null, triggerSource: 'rollback' }), 'Rollback')
  const provenance = { source: 'panel', subject: null } as Provenance
  t.equal(deploymentWords({ message: '', triggerSource: 'cli', provenance }), 'From the panel')
  t.equal(
    deploymentWords({ message: null, triggerSource: 'cli', provenance: { ...provenance, subject: 'Prices' } }),
    'Prices'
  )
  t.equal(
    deploymentWords({ message: null, triggerSource: 'rollback', provenance: { ...provenance, subject: 'Prices' } }),
    'Rollback: Prices'
  )
  t.equal(
    deploymentWords({ message: 'Mine', triggerSource: 'cli', provenance: { ...provenance, subject: 'Prices' } }),
    'Mine'
  )
})

t.test('formats percentages and days of the statistics', async t => {
  for (const [percent, words] of [
    [0, '0 %'],
    [0.04, '0 %'],
    [0.42, '0.4 %'],
    [9.94, '9.9 %'],
    [12.4, '12 %'],
    [100, '100 %']
  ] as const) {
    t.equal(percentWords(percent), words, String(percent))
  }
  t.equal(dayWords('2026-11-21'), '21 Nov')
  t.equal(monthWords('2026-03-01'), 'Mar')
  t.equal(weekdayWords('2024-01-01'), 'Mon')
})

t.test('shows an address and a differing claimed address', async t => {
  t.equal(addressWords('203.0.113.9', null), '203.0.113.9')
  t.equal(addressWords('203.0.113.9', undefined), '203.0.113.9', 'from an older server')
  t.equal(addressWords('203.0.113.9', '10.0.0.1'), '203.0.113.9, claims 10.0.0.1')
  t.equal(addressWords(null, null), null)
})

const lock = (owner: string, expiresAt = '2026-01-01T12:00:00.000Z'): ListedLock => ({
  projectId: 'proj_a',
  projectName: 'shop',
  kind: 'lock',
  owner,
  reason: 'audit',
  createdAt: '2026-01-01T00:00:00.000Z',
  expiresAt
})

t.test('only the lock of the admin is the own one', async t => {
  t.same([isOwnLock(lock('admin')), isOwnLock(lock('project:proj_a'))], [true, false])
  setHolder({ role: 'operator', name: 'token:ci', token: { id: 'tok_a', name: 'ci' }, projects: null })
  t.same([isOwnLock(lock('admin')), isOwnLock(lock('token:ci'))], [false, true])
  setHolder(null)
})

t.test('a lock is in force until the instant of its end', async t => {
  const [early, late] = [lock('admin'), lock('admin', '2026-01-01T12:00:00.001Z')]
  t.same(inForce([early, late], Date.parse(early.expiresAt)), [late])
})

t.test('a maintenance is in force until it is ended', async t => {
  const maintenance = { ...lock('admin'), projectId: 'proj_a', kind: 'maintenance' as const, expiresAt: null }
  t.same(inForce([maintenance], Number.MAX_SAFE_INTEGER), [maintenance])
})
