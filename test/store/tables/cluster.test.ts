import t from 'tap'
import {
  beginEpoch,
  clearSecrets,
  currentEpoch,
  findSecret,
  insertHubKey,
  listEpochs,
  listHubKeys,
  putSecret
} from '../../../lib/store/tables/cluster.js'
import { openStage } from '../../support/store.js'
import { aStore } from '../stage.js'

t.test('keeps the keys of a server in their order', async t => {
  const { store } = await openStage(t)
  const keys = ['b', 'a'].map(publicKey => ({ publicKey, signature: `of ${publicKey}` }))
  await store.write(tx => {
    for (const key of keys) insertHubKey(tx, key)
  })
  t.same(listHubKeys(store), keys)
})

t.test('keeps one value of each secret', async t => {
  const { store } = await openStage(t)
  t.equal(findSecret(store, 'adminToken'), null)
  await store.write(tx => putSecret(tx, 'adminToken', 'one'))
  await store.write(tx => putSecret(tx, 'adminToken', 'two'))
  t.equal(findSecret(store, 'adminToken'), 'two')
  await store.write(clearSecrets)
  t.equal(findSecret(store, 'adminToken'), null)
})

t.test('the last epoch is the current one, and the last ones are kept', async t => {
  const store = await aStore(t)
  t.equal(currentEpoch(store), '')
  await store.write(tx => ['a', 'b', 'a'].forEach(epoch => beginEpoch(tx, epoch)))
  t.same([currentEpoch(store), listEpochs(store)], ['b', ['a', 'b']])
  await store.write(tx => Array.from({ length: 300 }, (_, at) => beginEpoch(tx, `e${at}`)))
  t.same([listEpochs(store).length, currentEpoch(store)], [200, 'e299'])
})
