import t from 'tap'
import { fleetFindings } from '../../../lib/cli/doctor/fleet.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { startFleet } from '../../support/fleet-on-server.js'

const node = (name: string, given: Partial<ListedNode> = {}): ListedNode =>
  ({ name, isConnected: true, isDrained: false, placements: [], ...given }) as ListedNode

t.test('nodes that are lost or drifted are warnings; drained ones are not', async t => {
  t.same(fleetFindings([]), [])
  t.match(fleetFindings([node('web-1'), node('web-2', { isConnected: false, isDrained: true })]), [
    { result: 'pass', detail: '1 of 2 nodes connected' }
  ])
  const drifted = node('web-3', { placements: [{ isDrifted: true }] as ListedNode['placements'] })
  t.match(fleetFindings([node('web-2', { isConnected: false }), drifted]), [
    { result: 'warning', detail: 'not connected: web-2' },
    { result: 'warning', detail: 'not as rolled out: web-3' }
  ])
  t.match(fleetFindings([node('web-1'), node('web-4', { isOutdated: true })]), [
    { result: 'warning', detail: /^older agents.*: web-4$/, advice: /Upgrade svc there/ }
  ])
  t.match(fleetFindings([node('web-5', { sharedSince: '2030-01-01T00:00:00.000Z' })]), [
    { result: 'warning', detail: /^two machines use the identity of one node.*: web-5$/, advice: /Stop one of them/ }
  ])
  const many = Array.from({ length: 12 }, (_, at) => node(`n${at}`, { isConnected: false }))
  t.match(fleetFindings(many), [{ detail: /n9, and 2 more$/ }])
})

t.test('svc doctor asks a real server', async t => {
  const { run } = await startFleet(t, ['web-1'])
  // The agents of this stage speak the protocol of before.
  t.match((await run('doctor')).stdout, /Fleet: older agents, which do not notice recorded orders: web-1/)
})
