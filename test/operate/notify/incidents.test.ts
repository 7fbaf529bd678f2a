import t from 'tap'
import { readDisk } from '../../../lib/operate/machine/resources.js'
import { createIncidents } from '../../../lib/operate/notify/incidents.js'
import { statfsSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Incident } from '../../../lib/model/incident.js'
import type { DiskFigures } from '../../../lib/model/machine.js'
import type { FleetNode } from '../../../lib/model/node.js'
import { smallDisk } from '../../support/small-disk.js'
import { deleteNode, insertNode } from '../../../lib/core/store/tables/fleet.js'
import { toldIncidents } from '../../../lib/core/store/tables/server.js'
import { aNode } from '../../support/fleet-stage.js'
import { openStage } from '../../support/store.js'

/** Incidents on a real store, with what they look at. */
async function openIncidents(t: Parameters<typeof openStage>[0], disk?: () => Promise<DiskFigures>) {
  const { store, clock } = await openStage(t)
  const told: Incident[] = []
  const seen = { lost: [] as FleetNode[], connected: new Set<string>(), percentUsed: 10 }
  const start = () =>
    createIncidents({
      store,
      clock,
      tell: incident => void told.push(incident),
      disk: async () => ({
        path: '/data',
        ...(disk === undefined ? { freeBytes: 1, totalBytes: 2, percentUsed: seen.percentUsed } : await disk())
      }),
      nodes: () => seen,
      log(message, error) {
        throw new Error(message, { cause: error })
      }
    })
  return { store, told, seen, start }
}

t.test('a disk that becomes low is told of once, until it has space again', async t => {
  const { told, seen, start } = await openIncidents(t)
  const looks = async (percentUsed: number): Promise<number> => {
    seen.percentUsed = percentUsed
    await start().look()
    return told.length
  }
  t.equal(await looks(89), 0)
  t.equal(await looks(90), 1)
  t.equal(await looks(99), 1, 'each look is by another start of the server')
  t.equal(await looks(86), 1)
  t.equal(await looks(91), 1, 'it wavers')
  t.equal(await looks(84), 1)
  t.equal(await looks(92), 2)
  t.match(told[0], { event: 'disk_low', disk: { path: '/data', percentUsed: 90 } })
})

t.test('a real disk that fills up', async t => {
  const directory = smallDisk(t, 1024 * 1024)
  if (directory === null) return
  const { told, start } = await openIncidents(t, () => readDisk(directory))
  await start().look()
  t.same(told, [])
  const { bsize, blocks } = statfsSync(directory)
  writeFileSync(join(directory, 'big'), Buffer.alloc(bsize * Math.ceil(blocks * 0.92)))
  await start().look()
  t.match(told, [{ event: 'disk_low', disk: { percentUsed: Number } }])
  truncateSync(join(directory, 'big'))
  await start().look()
  t.equal(told.length, 1)
})

t.test('a lost node is told of once, until it is connected again', async t => {
  const { store, told, seen, start } = await openIncidents(t)
  const node: FleetNode = { ...aNode('a'), name: 'web-1', lastSeenAt: '2030-01-01T00:00:00.000Z' }
  await store.write(tx => insertNode(tx, node))
  seen.lost = [node]
  await start().look()
  await start().look()
  t.match(told, [{ event: 'node_lost', node: { id: 'node_a', name: 'web-1' }, projectIds: [] }])
  seen.lost = []
  await start().look()
  seen.lost = [node]
  await start().look()
  t.equal(told.length, 1, 'a server that has just started does not know yet whether it is lost')
  seen.lost = []
  seen.connected.add('node_a')
  await start().look()
  seen.connected.clear()
  seen.lost = [node]
  await start().look()
  t.equal(told.length, 2)
  seen.lost = []
  await store.write(tx => deleteNode(tx, node.id))
  await start().look()
  t.same(toldIncidents(store), [], 'nothing is left of a node that was forgotten')
})
