import t from 'tap'
import { deleteFactor, findFactor, putFactor } from '../../../lib/store/tables/second-factors.js'
import { openStage } from '../../support/store.js'

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
