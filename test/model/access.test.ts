import t from 'tap'
import {
  accessRoles,
  adviceOf,
  daysLeftOf,
  dueReminder,
  includesRole,
  isValidToken,
  secretDaysOf,
  tokenFault
} from '../../lib/model/access.js'

t.test('each role includes the rights of those before it, and of no other', async t => {
  const included = accessRoles.map(role => accessRoles.filter(wanted => includesRole(role, wanted)))
  t.same(included, [
    ['viewer'],
    ['viewer', 'deployer'],
    ['viewer', 'deployer', 'operator'],
    ['viewer', 'deployer', 'operator', 'admin']
  ])
})

t.test('requires 8 to 1024 visible ASCII characters', async t => {
  for (const token of ['12345678', '!~'.repeat(512), 'a-b_c.d+e/f=']) t.equal(tokenFault(token), null)
  for (const token of ['', '1234567', 'a'.repeat(1025), 'with space', 'pässword', '12345678\n'])
    t.type(tokenFault(token), 'string', JSON.stringify(token))
})

const dayMs = 86_400_000
const startMs = Date.parse('2030-01-01T00:00:00Z')
const day = (days: number): string => new Date(startMs + days * dayMs).toISOString()
const none = { lastUsedAt: null, rotatedAt: null, revokedAt: null }
/** A token of 100 days. */
const token = { ...none, createdAt: day(0), expiresAt: day(100) }

t.test('counts days: those that are left are rounded up, those of a secret down', async t => {
  t.equal(daysLeftOf(token, startMs + 86 * dayMs), 14)
  t.equal(daysLeftOf(token, startMs + 86 * dayMs + 1), 14)
  t.equal(daysLeftOf(token, startMs + 86 * dayMs - 1), 15)
  t.equal(daysLeftOf(token, startMs + 101 * dayMs), 0)
  t.equal(secretDaysOf(token, startMs + 2 * dayMs - 1), 1)
  t.equal(secretDaysOf({ ...token, rotatedAt: day(50) }, startMs + 52 * dayMs), 2)
})

t.test('a token is valid until it is revoked or has expired', async t => {
  t.equal(isValidToken(token, startMs), true)
  t.equal(isValidToken(token, startMs + 100 * dayMs), false)
  t.equal(isValidToken({ ...token, revokedAt: day(1) }, startMs), false)
})

const reminders: Array<[what: string, patch: object, atDay: number, due: number | null]> = [
  ['15 days before', {}, 85, null],
  ['14 days before', {}, 86, 14],
  ['2 days before', {}, 98, 14],
  ['1 day before', {}, 99, 1],
  ['after the end', {}, 100, null],
  ['revoked', { revokedAt: day(1) }, 86, null],
  ['a token of 14 days, at once', { expiresAt: day(14) }, 0, null],
  ['a token of 14 days, on its last day', { expiresAt: day(14) }, 13, 1],
  ['a token of a day', { expiresAt: day(1) }, 0.5, null],
  ['after a rotation that left 5 days', { rotatedAt: day(95) }, 96, null],
  ['after a rotation, on the last day', { rotatedAt: day(95) }, 99.5, 1]
]

for (const [what, patch, atDay, due] of reminders) {
  t.test(`reminder: ${what}`, async t => {
    const nowMs = startMs + atDay * dayMs
    t.equal(dueReminder({ ...token, ...patch }, nowMs), due)
    const isSoon = adviceOf({ ...token, ...patch }, { nowMs, rotateDays: 0 }).includes('expires_soon')
    t.equal(isSoon, due !== null)
  })
}

const advice: Array<[what: string, patch: object, given: { atDay: number; rotateDays: number }, expected: string[]]> = [
  ['a new token', {}, { atDay: 1, rotateDays: 30 }, []],
  ['a token that was never used for 90 days', { expiresAt: day(365) }, { atDay: 90, rotateDays: 0 }, ['unused']],
  ['a token that was used 89 days ago', { expiresAt: day(365), lastUsedAt: day(10) }, { atDay: 99, rotateDays: 0 }, []],
  ['a secret of 30 days', {}, { atDay: 30, rotateDays: 30 }, ['rotate']],
  ['a secret that was replaced', { rotatedAt: day(20) }, { atDay: 30, rotateDays: 30 }, []],
  ['everything at once', {}, { atDay: 95, rotateDays: 30 }, ['expires_soon', 'unused', 'rotate']],
  ['a revoked token', { revokedAt: day(2) }, { atDay: 95, rotateDays: 30 }, []]
]

for (const [what, patch, { atDay, rotateDays }, expected] of advice) {
  t.test(`advice about ${what}: ${expected.join(', ') || 'nothing'}`, async t => {
    t.same(adviceOf({ ...token, ...patch }, { nowMs: startMs + atDay * dayMs, rotateDays }), expected)
  })
}
