import t from 'tap'
import { createLinks } from '../../../lib/fleet/hub/links.js'
import { createOrders, ordersOf } from '../../../lib/fleet/hub/orders.js'
import type { DesiredLine } from '../../../lib/model/fleet-wire.js'
import { beginEpoch } from '../../../lib/store/tables/cluster.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { openFleet } from '../../support/fleet-stage.js'

t.test('sends the orders of a node that is connected, with the history of the database', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { store, clock } = stage
  const links = createLinks(clock)
  let isHeld = true
  const orders = createOrders({ store, links, isHeld: () => isHeld, log: message => t.fail(message) })
  const lines: DesiredLine[] = []
  const sink = { signal: new AbortController().signal, sendHead() {}, async write() {} }
  const running = links.open({ nodeId: 'node_a', say: async given => (lines.push(...given), '') }).run(sink)
  const id = await beginRollout(stage)
  const given = ordersOf(store, 'node_a')
  t.match(given, [{ nodeId: 'node_a', order: { action: 'prepare', attempt: 1 }, rollout: { id } }])
  await store.write(tx => beginEpoch(tx, 'e1'))
  orders.send(given)
  await orders.sent()
  isHeld = false
  orders.send(given)
  orders.send(ordersOf(store, 'node_b'))
  await orders.sent()
  await store.write(tx => beginEpoch(tx, 'e2'))
  orders.send(given)
  await orders.sent()
  await new Promise(resolve => setImmediate(resolve))
  links.closeAll()
  await running
  const order = { projectId: 'proj_a', rolloutId: id, number: 1, action: 'prepare', deployId: 'dep_a' }
  t.match(lines, [
    { type: 'order', epoch: 'e1', ...order },
    { type: 'order', epoch: 'e2', ...order }
  ])
  t.equal(lines.length, 2)
})
