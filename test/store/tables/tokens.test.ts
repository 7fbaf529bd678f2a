import t from 'tap'
import {
  countTokens,
  deleteToken,
  enrolledTokens,
  findToken,
  findTokenByName,
  insertToken,
  listTokens,
  removeTokensBefore,
  updateToken,
  type StoredToken
} from '../../../lib/store/tables/tokens.js'
import { openStage } from '../../support/store.js'

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
  t.equal(await store.write(tx => deleteToken(tx, 'tok_b')), true)
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
  await store.write(tx => void deleteToken(tx, 'tok_b'))
  t.same([...enrolledTokens(store)], [], 'it ends with the token')
})
