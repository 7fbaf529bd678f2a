import t from 'tap'
import {
  countTokens,
  deleteFactor,
  deleteSession,
  enrolledTokens,
  findFactor,
  findSessionByDigest,
  findToken,
  findTokenByName,
  insertSession,
  insertToken,
  lastActs,
  listSentReminders,
  listSessions,
  listTokens,
  putFactor,
  putSentReminder,
  removeTokensBefore,
  type StoredSession,
  type StoredToken,
  updateSession,
  updateToken
} from '../../../../lib/core/store/tables/access.js'
import { insertNamedToken } from '../../../support/a-token.js'
import { openStage } from '../../../support/store.js'
import { aStore } from '../stage.js'

const ci: StoredToken = {
  id: 'tok_a',
  name: 'ci-shop',
  digest: 'd1',
  role: 'deployer',
  projectIds: ['proj_a'],
  allowedIps: ['10.0.0.0/8'],
  showScripts: false,
  createdAt: '2026-11-01T00:00:00.000Z',
  createdBy: 'admin',
  expiresAt: '2027-01-30T00:00:00.000Z',
  lastUsedAt: null,
  lastUsedIp: null,
  rotatedAt: null,
  oldDigest: null,
  oldExpiresAt: null,
  oldLastUsedAt: null,
  revokedAt: null
}
const ana: StoredToken = { ...ci, id: 'tok_b', name: 'Ana', digest: 'd2', role: 'admin', projectIds: null }

t.test('keeps tokens', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    insertToken(tx, ci)
    insertToken(tx, ana)
  })
  t.same(listTokens(store), [ana, ci], 'by name')
  t.same(findToken(store, 'tok_a'), ci)
  t.same(findTokenByName(store, 'CI-Shop'), ci, 'whatever the case')
  t.equal(countTokens(store), 2)
  await t.rejects(
    store.write(tx => insertToken(tx, { ...ana, id: 'tok_c', digest: 'd3', name: 'aNA' })),
    /UNIQUE/
  )
  await store.write(tx => updateToken(tx, 'tok_a', { revokedAt: '2026-11-02T00:00:00.000Z' }))
  t.equal(findToken(store, 'tok_a')?.revokedAt, '2026-11-02T00:00:00.000Z')
  t.equal(await store.write(tx => removeTokensBefore(tx, '2026-12-01T00:00:00.000Z')), 1)
  t.equal(await store.write(tx => removeTokensBefore(tx, '2027-01-30T00:00:00.000Z')), 0)
  t.same(listTokens(store), [ana], 'one that still applies stays')
})

t.test('knows which tokens have a confirmed second factor', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    insertToken(tx, ci)
    insertToken(tx, ana)
    tx.run(
      `INSERT INTO secondFactors (tokenId, secret, confirmedAt, lastStep, recovery) VALUES ('tok_a', 's', NULL, 0, '[]'), ('tok_b', 's', 'x', 0, '[]')`
    )
  })
  t.same([...enrolledTokens(store)], ['tok_b'])
  await store.write(tx => {
    updateToken(tx, 'tok_b', { revokedAt: '2026-11-02T00:00:00.000Z' })
    removeTokensBefore(tx, '2026-12-01T00:00:00.000Z')
  })
  t.same([...enrolledTokens(store)], [], 'it ends with the token')
})

const session = (id: string, lastUsedAt: string): StoredSession => ({
  id,
  digest: `digest-${id}`,
  tokenMark: 'mark',
  createdAt: '2026-01-01T00:00:00.000Z',
  lastUsedAt,
  expiresAt: '2026-01-08T00:00:00.000Z',
  remember: id === 'ses_a',
  ip: null,
  tokenId: null,
  provenAt: null,
  userAgent: 'Browser'
})

t.test('finds sessions by digest, lists them by last use, and removes them', async t => {
  const store = await aStore(t)
  const [a, b] = [session('ses_a', '2026-01-01T01:00:00.000Z'), session('ses_b', '2026-01-01T02:00:00.000Z')]
  await store.write(tx => [a, b].forEach(each => insertSession(tx, each)))
  t.same(findSessionByDigest(store, 'digest-ses_a'), a)
  t.equal(findSessionByDigest(store, 'digest'), undefined)
  t.same(listSessions(store), [b, a])
  await store.write(tx => updateSession(tx, 'ses_a', { lastUsedAt: '2026-01-01T03:00:00.000Z' }))
  t.same(
    listSessions(store).map(({ id }) => id),
    ['ses_a', 'ses_b']
  )
  t.equal(await store.write(tx => deleteSession(tx, 'ses_a')), true)
  t.equal(await store.write(tx => deleteSession(tx, 'ses_a')), false)
  t.same(listSessions(store), [b])
})

t.test('keeps the second factor of a token', async t => {
  const { store } = await openStage(t)
  await store.write(tx =>
    tx.run(`INSERT INTO tokens (id, name, digest, role, allowedIps, showScripts, createdAt, createdBy, expiresAt)
      VALUES ('tok_a', 'ana', 'd', 'admin', '[]', 0, '2026', 'admin', '2027')`)
  )
  const factor = {
    tokenId: 'tok_a',
    secret: 'sealed',
    confirmedAt: null,
    lastStep: 0,
    recovery: [],
    wrongAt: [],
    lockedUntil: null
  }
  await store.write(tx => putFactor(tx, factor))
  t.same(findFactor(store, 'tok_a'), factor)
  const confirmed = { ...factor, confirmedAt: '2026-11-23T00:00:00.000Z', lastStep: 7, recovery: ['x', 'y'] }
  await store.write(tx => putFactor(tx, confirmed))
  t.same(findFactor(store, 'tok_a'), confirmed)
  t.equal(await store.write(tx => deleteFactor(tx, 'tok_a')), true)
  t.equal(await store.write(tx => deleteFactor(tx, 'tok_a')), false)
  t.equal(findFactor(store, 'tok_a'), undefined)
})

t.test('keeps the last reminder of each token, until the token is removed', async t => {
  const { store } = await openStage(t)
  const expiresAt = '2030-02-01T00:00:00.000Z'
  await store.write(tx => {
    for (const id of ['tok_a', 'tok_b']) insertNamedToken(tx, { id, name: id, expiresAt })
    putSentReminder(tx, { tokenId: 'tok_a', expiresAt, days: 14 })
    putSentReminder(tx, { tokenId: 'tok_b', expiresAt, days: 14 })
    putSentReminder(tx, { tokenId: 'tok_a', expiresAt, days: 1 })
  })
  t.same(listSentReminders(store), [
    { tokenId: 'tok_a', expiresAt, days: 1 },
    { tokenId: 'tok_b', expiresAt, days: 14 }
  ])
  await store.write(tx => tx.run('DELETE FROM tokens WHERE id = ?', 'tok_a'))
  t.same(
    listSentReminders(store).map(({ tokenId }) => tokenId),
    ['tok_b']
  )
})

t.test('returns the newest entry of each actor without a named token', async t => {
  const { store, clock, audit } = await openStage(t)
  for (const name of ['admin', 'project:proj_a', 'admin']) {
    await audit.record({ action: 'auth.login', actor: { name, ip: null } })
    clock.advance(1000)
  }
  await audit.record({
    action: 'auth.login',
    actor: { name: 'token:ana', ip: null, token: { id: 'tok_1', name: 'ana' } }
  })
  t.same(Object.fromEntries(lastActs(store)), {
    admin: '2030-01-01T00:00:02.000Z',
    'project:proj_a': '2030-01-01T00:00:01.000Z'
  })
})
