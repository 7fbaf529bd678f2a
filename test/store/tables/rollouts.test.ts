import t from 'tap'
import {
  archiveForNode,
  countRollouts,
  findRollout,
  goingProjects,
  insertRollout,
  lastRollout,
  listRollouts,
  nextRolloutNumber,
  removeOldRollouts,
  rolloutOfDeployment,
  updateRollout
} from '../../../lib/store/tables/rollouts.js'
import { insertDeployment, updateDeployment } from '../../../lib/store/tables/deployments.js'
import { aDeployment } from '../../store/stage.js'
import { aRollout, openFleet } from '../../support/fleet-stage.js'

t.test('keeps rollouts', async t => {
  const { store } = await openFleet(t)
  t.equal(nextRolloutNumber(store, 'proj_a'), 1)
  const [first, second] = [
    aRollout({ state: 'swapping' }),
    aRollout({ id: 'ro_b', number: 2, deployId: 'dep_b', state: 'done', sealed: 'v1.x' }, { pause: 'approve' })
  ]
  await store.write(tx => {
    insertRollout(tx, first)
    insertRollout(tx, second)
  })
  t.same(findRollout(store, 'ro_a'), first)
  t.same(lastRollout(store, 'proj_a'), second)
  t.same(rolloutOfDeployment(store, 'dep_a'), first)
  t.equal(nextRolloutNumber(store, 'proj_a'), 3)
  t.same(goingProjects(store), [], 'an earlier rollout gives no orders')
  t.same(countRollouts(store), { done: 1 })
  await store.write(tx => updateRollout(tx, 'ro_b', { state: 'approval', wave: 1 }))
  t.same(goingProjects(store), ['proj_a'])
  t.match(findRollout(store, 'ro_b'), { state: 'approval', wave: 1 })
})

t.test('lists rollouts, the newest first', async t => {
  const { store } = await openFleet(t)
  await store.write(tx => {
    for (const number of [1, 2, 3]) insertRollout(tx, aRollout({ id: `ro_${number}`, number }))
  })
  const list = (query: object) => listRollouts(store, { limit: 10, ...query }).map(({ id }) => id)
  t.same(list({}), ['ro_3', 'ro_2', 'ro_1'])
  t.same(list({ before: 'ro_3', limit: 1 }), ['ro_2'])
  t.same(list({ state: 'done' }), [])
  t.same(list({ scope: [] }), [])
  t.match(listRollouts(store, { limit: 1 }), [{ projectName: 'Site' }])
  await store.write(tx => removeOldRollouts(tx, 'proj_a', 2))
  t.same(list({}), ['ro_3', 'ro_2'])
})

t.test('finds an archive that is still there among those with the same contents', async t => {
  const { store } = await openFleet(t, ['a'])
  const found = () => archiveForNode(store, 'node_a', 'archive')
  t.equal(found(), undefined)
  await store.write(tx => {
    for (const [number, letter] of ['a', 'b'].entries()) {
      insertDeployment(tx, aDeployment({ id: `dep_${letter}`, hasArtifact: true }))
      insertRollout(tx, aRollout({ id: `ro_${letter}`, number, deployId: `dep_${letter}` }))
    }
  })
  t.equal(found(), 'dep_b')
  await store.write(tx => updateDeployment(tx, 'dep_b', { hasArtifact: false }))
  t.equal(found(), 'dep_a')
  t.equal(archiveForNode(store, 'node_b', 'archive'), undefined, 'no project of this node')
})
