import t from 'tap'
import { insertNode } from '../../../lib/store/tables/fleet.js'
import { storedRolloutNode } from '../../../lib/store/tables/rollouts.js'
import { listAudit } from '../../../lib/store/tables/audit.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { insertProject } from '../../../lib/store/tables/projects.js'
import { aProject } from '../../store/stage.js'
import { aNode, ana, openFleet } from '../../support/fleet-stage.js'

t.test('places a project on nodes, with its own directory or another one', async t => {
  const { hub, store } = await openFleet(t)
  await store.write(tx => ['a', 'b'].forEach(letter => insertNode(tx, aNode(letter))))
  const add = [{ node: 'plant-a' }, { node: 'node_b', deployPath: '/data/site/' }]
  t.match(await hub.placements.change('proj_a', { add, remove: [] }, ana), [
    { nodeName: 'plant-a', deployPath: '/srv/proj_a' },
    { nodeName: 'plant-b', deployPath: '/data/site' }
  ])
  t.equal((await hub.placements.change('proj_a', { add: [{ node: 'plant-b' }], remove: [] }, ana)).length, 2, 'again')
  const elsewhere = [{ node: 'plant-a', deployPath: '/srv/other' }]
  await t.rejects(hub.placements.change('proj_a', { add: elsewhere, remove: [] }, ana), { code: 'path_taken' })
  t.match(await hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana), [{ nodeName: 'plant-b' }])
  await t.rejects(hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana), { code: 'not_found' })
  t.same(
    listAudit(store, { limit: 10 }).map(({ action, detail }) => [action, detail]),
    [
      ['placement.remove', 'plant-a'],
      ['placement.add', 'plant-b: /data/site'],
      ['placement.add', 'plant-a: /srv/proj_a']
    ]
  )
})

t.test('refuses directories that are none, and that overlap those of another project', async t => {
  const { hub, store } = await openFleet(t, ['a'])
  await store.write(tx => insertNode(tx, aNode('b')))
  const place = (node: string, deployPath: string) =>
    hub.placements.change('proj_a', { add: [{ node, deployPath }], remove: [] }, ana)
  for (const path of ['srv', '/', '/..', '/a\0b'])
    await t.rejects(place('plant-b', path), { code: 'invalid_field' }, JSON.stringify(path))
  await store.write(tx => insertProject(tx, aProject({ id: 'proj_b' })))
  const other = (deployPath: string) =>
    hub.placements.change('proj_b', { add: [{ node: 'plant-a', deployPath }], remove: [] }, ana)
  for (const path of ['/srv/a', '/srv/a/b', '/srv']) await t.rejects(other(path), { code: 'path_taken' }, path)
  t.equal((await other('/srv/ab')).length, 1)
  t.equal((await place('plant-b', '/srv/ab')).length, 2, 'the same directory on another node')
})

t.test('waits for the end of a deployment, and lets a new node take part in a rollout', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store, running } = stage
  await store.write(tx => ['b', 'c'].forEach(letter => insertNode(tx, aNode(letter))))
  const id = await beginRollout(stage)
  await hub.placements.change('proj_a', { add: [{ node: 'plant-b' }], remove: [] }, ana)
  t.equal(storedRolloutNode(store, id, 'node_b')?.phase, 'skipped', 'it is asked first what it has')
  await t.rejects(hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana), {
    code: 'rollout_in_progress'
  })
  await hub.rollouts.halt(id, null, ana)
  await hub.placements.change('proj_a', { add: [], remove: ['plant-a'] }, ana)
  t.equal(storedRolloutNode(store, id, 'node_a'), undefined)
  running.add('proj_a')
  await t.rejects(hub.placements.change('proj_a', { add: [], remove: ['plant-b'] }, ana), {
    code: 'rollout_in_progress'
  })
})
