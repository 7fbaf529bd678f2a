import t from 'tap'
import { endOf, remarksOf, scopeOf, useOf } from '../../../lib/cli/access/token-view.js'

const nowMs = Date.parse('2026-11-23T12:00:00.000Z')

t.test('says when a token ends', async t => {
  const cases: Array<[expiresAt: string, revokedAt: string | null, said: string]> = [
    ['2027-02-20T12:00:01.000Z', null, 'expires in 89 days'],
    ['2026-11-24T13:00:00.000Z', null, 'expires in 1 day'],
    ['2026-11-24T11:30:00.000Z', null, 'expires at 11:30 UTC'],
    ['2026-11-23T12:00:00.000Z', null, 'expired now'],
    ['2026-11-20T12:00:00.000Z', null, 'expired 3d ago'],
    ['2027-02-20T12:00:00.000Z', '2026-11-23T11:00:00.000Z', 'revoked 1h ago']
  ]
  for (const [expiresAt, revokedAt, said] of cases) t.equal(endOf({ expiresAt, revokedAt }, nowMs), said)
})

t.test('says when and from where a token was used', async t => {
  const lastUsedAt = '2026-11-23T11:56:00.000Z'
  t.equal(useOf({ lastUsedAt: null, lastUsedIp: null }, nowMs), 'never')
  t.equal(useOf({ lastUsedAt, lastUsedIp: '10.0.0.7' }, nowMs), '4m ago from 10.0.0.7')
  t.equal(useOf({ lastUsedAt, lastUsedIp: null }, nowMs), '4m ago', 'the local socket')
})

t.test('names the projects, and a removed one by its id', async t => {
  const names = new Map([['proj_a', 'shop']])
  t.equal(scopeOf({ projectIds: null }, names), 'all projects')
  t.equal(scopeOf({ projectIds: ['proj_a', 'proj_b'] }, names), 'shop, proj_b')
})

t.test('remarks name a second factor and the advice', async t => {
  t.equal(remarksOf({ advice: [], secondFactor: false }), '')
  const remarks = remarksOf({ advice: ['expires_soon', 'unused', 'rotate'], secondFactor: true })
  t.equal(remarks, 'second factor, expires soon, unused for 90 days, old secret')
})
