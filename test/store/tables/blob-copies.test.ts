import t from 'tap'
import { copiesOf, dropCopies, dropCopiesOf, putCopy } from '../../../lib/store/tables/blob-copies.js'
import { openStage } from '../../support/store.js'

t.test('knows the hubs that have an archive', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    for (const hub of ['h2', 'h1', 'h2']) putCopy(tx, { deployId: 'dep_a', hub })
    putCopy(tx, { deployId: 'dep_b', hub: 'h2' })
  })
  t.strictSame(copiesOf(store, 'dep_a'), ['h1', 'h2'])
  await store.write(tx => dropCopiesOf(tx, 'h2'))
  t.strictSame(copiesOf(store, 'dep_a'), ['h1'])
  t.equal(await store.write(dropCopies), 1, 'there is no such deployment')
  t.strictSame(copiesOf(store, 'dep_a'), [])
})
