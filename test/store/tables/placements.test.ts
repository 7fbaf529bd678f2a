import t from 'tap'
import {
  countPlacements,
  deletePlacement,
  findPlacement,
  isPlaced,
  listPlacements,
  movePlacement,
  noteLive
} from '../../../lib/store/tables/placements.js'
import { deleteProject } from '../../../lib/store/tables/projects.js'
import { openFleet } from '../../support/fleet-stage.js'

t.test('keeps placements, and what nodes say about them', async t => {
  const { store } = await openFleet(t, ['b', 'a'])
  t.match(listPlacements(store, { projectId: 'proj_a' }), [
    { nodeName: 'plant-a', deployPath: '/srv/a', liveTree: null, isDrifted: false },
    { nodeName: 'plant-b' }
  ])
  t.equal(listPlacements(store, { nodeId: 'node_a' }).length, 1)
  t.same(listPlacements(store, { scope: ['proj_b'] }), [], 'outside of the scope')
  t.ok(isPlaced(store, 'proj_a'))
  t.notOk(isPlaced(store, 'proj_b'))
  t.equal(countPlacements(store), 2)
  const live = { liveDeployId: 'dep_a', liveTree: 'tree', seenAt: '2030-01-01T00:00:00.000Z', isDrifted: true }
  const place = { projectId: 'proj_a', nodeId: 'node_a' }
  t.equal(await store.write(tx => noteLive(tx, { ...place, ...live })), true)
  t.same(findPlacement(store, 'proj_a', 'node_a'), { ...place, ...live, deployPath: '/srv/a' })
  t.equal(await store.write(tx => movePlacement(tx, { ...place, ...live, deployPath: '/srv/b' })), true)
  t.equal(findPlacement(store, 'proj_a', 'node_a')?.deployPath, '/srv/b')
  t.equal(await store.write(tx => deletePlacement(tx, 'proj_a', 'node_a')), true)
  t.equal(await store.write(tx => deletePlacement(tx, 'proj_a', 'node_a')), false)
})

t.test('removes the placements of a project with it', async t => {
  const { store } = await openFleet(t, ['a'])
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.equal(countPlacements(store), 0)
})
