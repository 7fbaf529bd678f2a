import t from 'tap'
import { accessRoles, type AccessToken } from '../../../../lib/model/access.js'
import {
  afterDays,
  daysProblem,
  daysUntil,
  findTokens,
  isOverlapping,
  readAddresses,
  roleRows,
  stateOf
} from '../../../../www/elements/access/token-row.js'

const nowMs = Date.parse('2026-06-01T12:00:00.000Z')

function token(fields: Partial<AccessToken>): AccessToken {
  return {
    id: `tok_${fields.name}`,
    name: 'ci',
    role: 'viewer',
    projectIds: null,
    allowedIps: [],
    showScripts: false,
    createdAt: '2026-01-01T00:00:00.000Z',
    createdBy: 'admin',
    expiresAt: '2026-12-01T12:00:00.000Z',
    lastUsedAt: null,
    lastUsedIp: null,
    rotatedAt: null,
    oldExpiresAt: null,
    oldLastUsedAt: null,
    revokedAt: null,
    secondFactor: false,
    ...fields
  }
}

t.test('each role is described, in order', async t => {
  t.same(
    roleRows.map(({ role }) => role),
    accessRoles
  )
})

t.test('a token warns 14 days before its end', async t => {
  for (const [expiresAt, revokedAt, state] of [
    ['2026-06-15T12:00:00.001Z', null, 'valid'],
    ['2026-06-15T12:00:00.000Z', null, 'expiring'],
    ['2026-06-01T12:00:00.001Z', null, 'expiring'],
    ['2026-06-01T12:00:00.000Z', null, 'expired'],
    ['2026-12-01T00:00:00.000Z', '2026-05-01T00:00:00.000Z', 'revoked'],
    ['2026-05-01T00:00:00.000Z', '2026-04-01T00:00:00.000Z', 'revoked']
  ] as const)
    t.equal(stateOf({ expiresAt, revokedAt }, nowMs), state, `${expiresAt} ${revokedAt}`)
})

t.test('counts days begun, and back', async t => {
  t.equal(daysUntil('2026-06-03T11:59:59.000Z', nowMs), 2)
  t.equal(daysUntil('2026-06-02T11:59:59.000Z', nowMs), 1)
  t.equal(daysUntil('2026-06-03T12:00:00.000Z', nowMs), 2)
  t.equal(daysUntil('2026-05-01T12:00:00.000Z', nowMs), 0)
  t.equal(afterDays(2, nowMs), '2026-06-03T12:00:00.000Z')
})

t.test('accepts whole numbers of days up to the maximum', async t => {
  for (const good of ['1', '90', '365']) t.equal(daysProblem(good, 365), null, good)
  for (const bad of ['', '0', '-1', '1.5', '366', 'soon', '1e9']) t.match(daysProblem(bad, 365), '365', bad)
})

t.test('the earlier secret is valid until the end of the overlap', async t => {
  t.notOk(isOverlapping({ oldExpiresAt: null }, nowMs))
  t.notOk(isOverlapping({ oldExpiresAt: '2026-06-01T12:00:00.000Z' }, nowMs))
  t.ok(isOverlapping({ oldExpiresAt: '2026-06-01T12:00:00.001Z' }, nowMs))
})

t.test('reads addresses in any form of list, each once', async t => {
  for (const [text, addresses] of [
    ['', []],
    [' \n ', []],
    ['10.0.0.0/8', ['10.0.0.0/8']],
    ['10.0.0.1, 10.0.0.2;::1\n10.0.0.1', ['10.0.0.1', '10.0.0.2', '::1']],
    ['10.0.0.1，10.0.0.2', ['10.0.0.1', '10.0.0.2']]
  ] as const)
    t.same(readAddresses(text), addresses, JSON.stringify(text))
})

t.test('finds tokens by name, role and project: soon expiring ones first, ended ones last', async t => {
  const tokens = [
    token({ name: 'gone', revokedAt: '2026-05-01T00:00:00.000Z' }),
    token({ name: 'old', expiresAt: '2026-05-01T00:00:00.000Z' }),
    token({ name: 'ada', role: 'operator' }),
    token({ name: 'soon', expiresAt: '2026-06-02T00:00:00.000Z', projectIds: ['proj_a', 'proj_gone'] })
  ]
  const nameOf = (id: string): string => (id === 'proj_a' ? 'Storefront' : id)
  const find = (text: string): string[] => findTokens(tokens, { text, nowMs, nameOf }).map(({ name }) => name)
  t.same(find(''), ['soon', 'ada', 'old', 'gone'])
  t.same(find(' STORE '), ['soon'])
  t.same(find('proj_gone'), ['soon'])
  t.same(find('operator'), ['ada'])
  t.same(find('nothing'), [])
})
