import t from 'tap'
import { createHistories } from '../../../lib/fleet/agent/histories.js'
import { openStage } from '../../support/store.js'

t.test('the histories of a hub are remembered over a start, and one that was replaced stays so', async t => {
  const { store } = await openStage(t)
  const before = createHistories(store)
  t.equal(before.first('a'), 'a', 'what was ordered before histories had names is of the first one')
  for (const epoch of ['a', 'b', 'b']) {
    t.notOk(before.isReplaced(epoch))
    const write = before.follow(epoch)
    t.notOk(before.isReplaced(epoch), 'at once')
    await store.write(write)
  }
  for (const histories of [before, createHistories(store)]) {
    t.same(['a', 'b', 'c'].map(histories.isReplaced), [true, false, false])
    t.equal(histories.first('c'), 'a')
  }
})
