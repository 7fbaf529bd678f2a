import t from 'tap'
import { clearSecrets, findSecret, putSecret } from '../../../lib/store/tables/cluster-secrets.js'
import { openStage } from '../../support/store.js'

t.test('keeps one value of each secret', async t => {
  const { store } = await openStage(t)
  t.equal(findSecret(store, 'adminToken'), null)
  await store.write(tx => putSecret(tx, 'adminToken', 'one'))
  await store.write(tx => putSecret(tx, 'adminToken', 'two'))
  t.equal(findSecret(store, 'adminToken'), 'two')
  await store.write(clearSecrets)
  t.equal(findSecret(store, 'adminToken'), null)
})
