import t from 'tap'
import { lastActs } from '../../../lib/store/tables/last-acts.js'
import { openStage } from '../../support/store.js'

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
