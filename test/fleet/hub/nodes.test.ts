import t from 'tap'
import { listAudit } from '../../../lib/store/tables/audit.js'
import { findNode } from '../../../lib/store/tables/fleet.js'
import { storedRolloutNode } from '../../../lib/store/tables/rollouts.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'

t.test('lists nodes by name, label, project and scope', async t => {
  const { hub } = await openFleet(t, ['b', 'a'])
  await hub.nodes.update('node_a', { labels: { zone: 'eu' } }, ana)
  const names = (query?: Parameters<typeof hub.nodes.list>[0]) => hub.nodes.list(query).map(({ name }) => name)
  t.same(names(), ['plant-a', 'plant-b'])
  t.same(names({ label: { key: 'zone', value: 'eu' } }), ['plant-a'])
  t.same(names({ projectId: 'proj_a' }), ['plant-a', 'plant-b'])
  t.same(names({ projectId: 'proj_b' }), [])
  t.same(names({ scope: ['proj_b'] }), [], 'not a node without a project of the scope')
  t.match(hub.nodes.get('PLANT-A'), { id: 'node_a', isConnected: false, placements: [{ projectName: 'Site' }] })
  t.throws(() => hub.nodes.get('node_a', ['proj_b']), { code: 'not_found' })
})

t.test('renames, drains and forgets nodes, and records it', async t => {
  const { hub, store, ended } = await openFleet(t, ['a', 'b'])
  t.match(await hub.nodes.update('plant-a', { name: 'north' }, ana), { name: 'north' })
  await t.rejects(hub.nodes.update('north', { name: 'PLANT-B' }, ana), { code: 'name_taken' })
  t.match(await hub.nodes.drain('north', true, ana), { isDrained: true })
  await hub.nodes.drain('north', true, ana)
  t.match(await hub.nodes.drain('north', false, ana), { isDrained: false })
  await hub.nodes.forget('north', ana)
  t.equal(findNode(store, 'node_a'), undefined)
  t.same(ended, ['node_a'], 'its sessions have ended')
  await t.rejects(hub.nodes.forget('north', ana), { code: 'not_found' })
  t.same(
    listAudit(store, { limit: 10 }).map(({ action, target, actor }) => [action, target, actor]),
    ['node.forget', 'node.undrain', 'node.drain', 'node.update'].map(action => [action, 'node_a', 'token:ana'])
  )
})

t.test('leaves a drained node out of a rollout, and continues without a forgotten one', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub, store } = stage
  const id = await beginRollout(stage)
  t.equal(storedRolloutNode(store, id, 'node_b')?.phase, 'preparing')
  await hub.nodes.drain('node_b', true, ana)
  t.equal(storedRolloutNode(store, id, 'node_b')?.phase, 'skipped')
  await hub.nodes.forget('node_a', ana)
  t.equal(hub.rollouts.get(id).state, 'done', 'nobody is left to wait for')
})
