import t from 'tap'
import { beginEpoch, currentEpoch, listEpochs } from '../../../lib/store/tables/epochs.js'
import { aStore } from '../stage.js'

t.test('the last epoch is the current one, and the last ones are kept', async t => {
  const store = await aStore(t)
  t.equal(currentEpoch(store), '')
  await store.write(tx => ['a', 'b', 'a'].forEach(epoch => beginEpoch(tx, epoch)))
  t.same([currentEpoch(store), listEpochs(store)], ['b', ['a', 'b']])
  await store.write(tx => Array.from({ length: 300 }, (_, at) => beginEpoch(tx, `e${at}`)))
  t.same([listEpochs(store).length, currentEpoch(store)], [200, 'e299'])
})
