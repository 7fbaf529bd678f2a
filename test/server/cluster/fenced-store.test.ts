import t from 'tap'
import { createFencedStore, isOfRole } from '../../../lib/server/cluster/fenced-store.js'
import { readSettings, writeSetting } from '../../../lib/store/tables/server.js'
import { openStage } from '../../support/store.js'

t.test('a term writes until it has ended, and reads on', async t => {
  const { store } = await openStage(t)
  const term = createFencedStore(store, { isReader: false })
  await term.write(tx => writeSetting(tx, 'keep_archives', '3'))
  term.fence()
  const error = await term.write(tx => writeSetting(tx, 'keep_archives', '4')).catch((error: unknown) => error)
  t.match(error, { code: 'not_leader' })
  t.ok(isOfRole(error))
  t.equal(readSettings(term)['keep_archives'], '3')
  t.equal(term.sequence(), store.sequence())
  t.equal(term.version(['settings']), store.version(['settings']))
  t.equal(term.revision(), store.revision())
  t.strictSame(term.state(), store.state())
})

t.test('a follower never writes', async t => {
  const { store } = await openStage(t)
  const term = createFencedStore(store, { isReader: true })
  await t.rejects(
    term.write(() => {}),
    { code: 'not_leader' }
  )
  t.notOk(isOfRole(new Error('another')))
})
