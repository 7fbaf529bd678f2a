import t from 'tap'
import { fleetState } from '../../lib/machine/fleet-state.js'
import { parseMetrics } from '../support/prometheus.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { ana, openFleet } from '../support/fleet-stage.js'
import { startNode } from '../support/fake-node.js'
import { startServer } from '../support/server.js'

t.test('counts nodes and the last rollouts of projects', async t => {
  const stage = await openFleet(t)
  t.equal(fleetState(stage.store, 0), null)
  const other = await openFleet(t, ['a', 'b'])
  const id = await beginRollout(other)
  t.same(fleetState(other.store, 1), { nodes: 2, connected: 1, going: 1, halted: 0 })
  await other.hub.rollouts.halt(id, null, ana)
  t.same(fleetState(other.store, 1), { nodes: 2, connected: 1, going: 0, halted: 1 })
})

t.test('the metrics and the health of a server contain the fleet if there are nodes', async t => {
  const { client, url, server } = await startServer(t)
  t.notMatch((await client.get('/metrics')).text, 'svc_nodes')
  t.notOk('fleet' in (await client.get('/api/health/detail')).body)
  const node = await startNode({ url, hub: await server.services.fleet.hub() }, 'plant-a')
  t.teardown(() => node.close())
  const { text } = await client.get('/metrics')
  t.ok(parseMetrics(text) !== undefined)
  t.match(text, /^svc_nodes_connected 1$/m)
  t.same((await client.get('/api/health/detail')).body.fleet, { nodes: 1, connected: 1, going: 0, halted: 0 })
})
