import t from 'tap'
import {
  countNodes,
  deleteNode,
  findNode,
  findNodeByName,
  insertNode,
  listNodes,
  nodesOfProject,
  noteSeen,
  updateNode
} from '../../../lib/store/tables/nodes.js'
import { listPlacements } from '../../../lib/store/tables/placements.js'
import { aNode, openFleet } from '../../support/fleet-stage.js'
import { openStage } from '../../support/store.js'

t.test('keeps nodes', async t => {
  const { store } = await openStage(t)
  const [a, b] = [aNode('a', { labels: { zone: 'eu' } }), aNode('b', { name: 'Anna' })]
  await store.write(tx => {
    insertNode(tx, a)
    insertNode(tx, b)
  })
  t.same(listNodes(store), [b, a], 'by name')
  t.same(findNode(store, 'node_a'), a)
  t.same(findNodeByName(store, 'PLANT-A'), a, 'whatever the case')
  t.equal(countNodes(store), 2)
  await t.rejects(
    store.write(tx => insertNode(tx, aNode('c', { name: 'anna' }))),
    /UNIQUE/
  )
  await store.write(tx => updateNode(tx, 'node_b', { isDrained: true, labels: { rack: '1' } }))
  t.match(findNode(store, 'node_b'), { isDrained: true, labels: { rack: '1' } })
  await store.write(tx =>
    noteSeen(tx, [
      ['node_a', '2030-01-02T00:00:00.000Z'],
      ['node_gone', '2030-01-02T00:00:00.000Z']
    ])
  )
  t.equal(findNode(store, 'node_a')?.lastSeenAt, '2030-01-02T00:00:00.000Z')
  t.equal(findNode(store, 'node_b')?.lastSeenAt, null)
})

t.test('removes the placements of a node with it', async t => {
  const { store } = await openFleet(t, ['b', 'a'])
  t.same(
    nodesOfProject(store, 'proj_a').map(({ name }) => name),
    ['plant-a', 'plant-b']
  )
  t.equal(await store.write(tx => deleteNode(tx, 'node_a')), true)
  t.equal(await store.write(tx => deleteNode(tx, 'node_a')), false)
  t.same(
    listPlacements(store).map(({ nodeId }) => nodeId),
    ['node_b']
  )
})
