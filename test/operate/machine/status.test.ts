import t from 'tap'
import { fleetState, formatUptime, successRate, successShare } from '../../../lib/operate/machine/status.js'
import { parseMetrics } from '../../support/prometheus.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'
import { startNode } from '../../support/fake-node.js'
import { startNodes } from '../../support/real-nodes.js'
import { startServer } from '../../support/server.js'

t.test('shows the uptime in its two largest units', async t => {
  const cases: Array<[number, string]> = [
    [0, '0s'],
    [999, '0s'],
    [5_000, '5s'],
    [125_000, '2m 5s'],
    [120_000, '2m'],
    [3_600_000, '1h'],
    [3_605_000, '1h'],
    [90_061_000, '1d 1h'],
    [86_400_000 * 400, '400d']
  ]
  for (const [ms, text] of cases) t.equal(formatUptime(ms), text)
})

t.test('returns the success rate in percent', async t => {
  t.equal(successRate(0, 0), null)
  t.equal(successRate(2, 1), 66.7)
  t.equal(successRate(3, 0), 100)
  t.equal(successRate(0, 3), 0)
})

t.test('returns the success rate as a share', async t => {
  t.equal(successShare(0, 0), null)
  t.equal(successShare(2, 1), 0.667)
  t.equal(successShare(3, 0), 1)
})

t.test('counts nodes and the last rollouts of projects', async t => {
  const stage = await openFleet(t)
  t.equal(fleetState(stage.store, { connected: 0, outdated: 0 }), null)
  const links = { connected: 1, outdated: 1 }
  const other = await openFleet(t, ['a', 'b'])
  const id = await beginRollout(other)
  t.same(fleetState(other.store, links), { nodes: 2, ...links, shared: 0, going: 1, halted: 0 })
  await other.hub.rollouts.halt(id, null, ana)
  t.same(fleetState(other.store, links), { nodes: 2, ...links, shared: 0, going: 0, halted: 1 })
})

t.test('the metrics and the health of a server contain the fleet if there are nodes', async t => {
  const stage = await startServer(t)
  const { client, url, server } = stage
  t.notMatch((await client.get('/metrics')).text, 'svc_nodes')
  t.notOk('fleet' in (await client.get('/api/health/detail')).body)
  const node = await startNode({ url, hub: await server.services.fleet.hub() }, 'plant-a')
  t.teardown(() => node.close())
  const { text } = await client.get('/metrics')
  t.ok(parseMetrics(text) !== undefined)
  t.match(text, /^svc_nodes_connected 1$/m)
  t.match(text, /^svc_fleet_nodes_outdated 1$/m, 'the agent has the protocol of before')
  t.same((await client.get('/api/health/detail')).body.fleet, {
    nodes: 1,
    connected: 1,
    outdated: 1,
    shared: 0,
    going: 0,
    halted: 0
  })
  await startNodes(t, stage, [{ name: 'plant-b' }])
  const after = (await client.get('/metrics')).text
  t.match(after, /^svc_nodes_connected 2$/m)
  t.match(after, /^svc_fleet_nodes_outdated 1$/m, 'an agent of this version is not outdated')
})
