import t from 'tap'
import { insertHubKey, listHubKeys } from '../../../lib/store/tables/hub-keys.js'
import { openStage } from '../../support/store.js'

t.test('keeps the keys of a server in their order', async t => {
  const { store } = await openStage(t)
  const keys = ['b', 'a'].map(publicKey => ({ publicKey, signature: `of ${publicKey}` }))
  await store.write(tx => {
    for (const key of keys) insertHubKey(tx, key)
  })
  t.same(listHubKeys(store), keys)
})
