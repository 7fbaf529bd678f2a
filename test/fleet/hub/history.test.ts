import t from 'tap'
import { createHistory } from '../../../lib/fleet/hub/history.js'
import { currentEpoch, listEpochs } from '../../../lib/store/tables/cluster.js'
import { openFleet } from '../../support/fleet-stage.js'

t.test('a history begins after a restore, or because of a node, but not without end', async t => {
  const { store, ids, clock } = await openFleet(t, ['a'])
  const audited: string[] = []
  const history = createHistory({ clock, ids, audit: { within: (_, { detail }) => void audited.push(String(detail)) } })
  await store.write(tx => (history.ensure(tx), history.ensure(tx)))
  const first = currentEpoch(store)
  t.same([first !== '', listEpochs(store).length, audited], [true, 1, []])
  await store.write(tx => history.begin(tx, 'restored'))
  t.not(currentEpoch(store), first)
  const asks = (nodeId: string) => store.write(tx => history.beginFor(tx, nodeId, `node ${nodeId}`))
  t.same([await asks('a'), await asks('a'), await asks('b')], [true, false, true])
  t.same(audited, ['restored', 'node a', 'node b'])
  t.equal(listEpochs(store).length, 4)
})
