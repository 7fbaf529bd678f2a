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
  const many = Array.from({ length: 12 }, (_, at) => node(`n${at}`, { isConnected: false }))
  t.match(fleetFindings(many), [{ detail: /n9, and 2 more$/ }])
})

t.test('svc doctor asks a real server', async t => {
  const { run } = await startFleet(t, ['web-1'])
  t.match((await run('doctor')).stdout, /Fleet: 1 of 1 node connected/)
})
