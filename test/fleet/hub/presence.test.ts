import t from 'tap'
import { createPresence } from '../../../lib/fleet/hub/presence.js'
import { findNode } from '../../../lib/store/tables/fleet.js'
import { aNode, openFleet } from '../../support/fleet-stage.js'

t.test('knows when nodes were heard of, and writes it now and then', async t => {
  const { store, clock } = await openFleet(t, ['a', 'b'])
  const presence = createPresence({ store, clock })
  const before = store.sequence()
  presence.heard('node_a')
  t.equal(presence.lastSeenOf(aNode('a')), '2030-01-01T00:00:00.000Z')
  t.equal(presence.lastSeenOf(aNode('b', { lastSeenAt: 'before' })), 'before')
  await presence.write()
  t.equal(store.sequence(), before, 'not at each report')
  clock.advance(5 * 60_000)
  await presence.write()
  t.equal(findNode(store, 'node_a')?.lastSeenAt, '2030-01-01T00:00:00.000Z')
  presence.heard('node_b')
  await presence.write({ now: true })
  t.equal(findNode(store, 'node_b')?.lastSeenAt, '2030-01-01T00:05:00.000Z')
})

t.test('a node is lost after a minute, from the start of the hub on', async t => {
  const { store, clock } = await openFleet(t, ['a', 'b'])
  const presence = createPresence({ store, clock })
  clock.advance(59_999)
  presence.heard('node_a')
  t.notOk(presence.isLost('node_b'))
  clock.advance(1)
  t.ok(presence.isLost('node_b'))
  t.notOk(presence.isLost('node_a'))
  clock.advance(60_000)
  t.ok(presence.isLost('node_a'))
})
