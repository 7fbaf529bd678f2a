import t from 'tap'
import { listSentReminders, putSentReminder } from '../../../lib/store/tables/token-reminders.js'
import { openStage } from '../../support/store.js'
import { insertNamedToken } from '../../support/a-token.js'

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
