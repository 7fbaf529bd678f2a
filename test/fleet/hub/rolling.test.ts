import t from 'tap'
import { createRollings, type NewOrder } from '../../../lib/fleet/hub/rolling.js'
import type { Store } from '../../../lib/store/database.js'
import { deleteRolloutNode, findRollout } from '../../../lib/store/tables/rollouts.js'
import { aRollout, openFleet } from '../../support/fleet-stage.js'

const node = (nodeId: string) => ({
  nodeId,
  wave: 1,
  phase: 'pending' as const,
  attempt: 0,
  swapAttempt: 0,
  hasBegun: false,
  error: null,
  updatedAt: ''
})

/** Rollouts of a store whose writes fail when the test says so. */
async function openRollings(t: Parameters<typeof openFleet>[0]) {
  const { store: real, clock } = await openFleet(t, ['a', 'b'])
  let failure: Error | null = null
  const store: Store = {
    ...real,
    async write(work) {
      if (failure === null) return real.write(work)
      const error = failure
      await real.write(tx => {
        work(tx)
        throw error
      })
      throw error
    }
  }
  const sent: NewOrder[] = []
  const rollings = createRollings({ store, clock, send: orders => void sent.push(...orders), changed() {} })
  return { store, rollings, sent, fail: (error: Error | null) => void (failure = error) }
}

t.test('sends orders when they are on the disk, and continues from the store after a failure', async t => {
  const { store, rollings, sent, fail } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_a'), node('node_b')]).machine.start())
  t.same(
    sent.splice(0).map(({ nodeId, order }) => [nodeId, order.action, order.attempt]),
    [
      ['node_a', 'prepare', 1],
      ['node_b', 'prepare', 1]
    ]
  )
  const prepared = (nodeId: string) =>
    rollings.write(turn => turn.of('proj_a')?.machine.answer({ nodeId, attempt: 1, answer: 'prepared' }))
  fail(new Error('no space'))
  await t.rejects(prepared('node_a'), /no space/)
  t.same(sent, [])
  t.equal(rollings.read('proj_a')?.machine.node('node_a')?.phase, 'preparing', 'as in the store')
  fail(null)
  await prepared('node_a')
  await prepared('node_b')
  t.same(
    sent.map(({ nodeId, order }) => [nodeId, order.action, order.attempt]),
    [['node_a', 'swap', 2]],
    'and nothing that a node knows already'
  )
  t.equal(findRollout(store, 'ro_a')?.state, 'swapping')
  t.same(rollings.going(), ['proj_a'])
})

t.test('reads rollouts of the store, and forgets those that have ended after a while', async t => {
  const { store, rollings } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_a')]).machine.start())
  const again = createRollings({ store, clock: { now: () => 0 }, send() {}, changed() {} })
  t.equal(again.read('proj_a')?.machine.node('node_a')?.phase, 'preparing')
  t.equal(again.read('proj_a'), again.read('proj_a'), 'once')
  t.equal(again.read('proj_other'), null)
})

t.test('forgets a rollout that was left, if the write fails', async t => {
  const { rollings, fail } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_a')]).machine.start())
  const before = rollings.read('proj_a')
  before?.machine.halt('It is not written yet')
  fail(new Error('no space'))
  await t.rejects(
    rollings.write(turn => turn.leave('proj_a')),
    /no space/
  )
  t.equal(rollings.read('proj_a')?.stored.state, 'preparing', 'as in the store')
})

t.test('nodes have the same order after a restart', async t => {
  const { store, rollings } = await openRollings(t)
  await rollings.write(turn => turn.added(aRollout(), [node('node_b')]).machine.start())
  await rollings.write(turn => turn.of('proj_a')?.machine.answer({ nodeId: 'node_b', attempt: 1, answer: 'prepared' }))
  const restarted = () => createRollings({ store, clock: { now: () => 0 }, send() {}, changed() {} })
  const orderOf = (all: typeof rollings) => [...(all.read('proj_a')?.machine.nodes ?? [])].map(({ nodeId }) => nodeId)
  await rollings.write(turn => turn.of('proj_a')?.machine.add('node_a'))
  t.same(orderOf(rollings), ['node_b', 'node_a'])
  t.same(orderOf(restarted()), ['node_b', 'node_a'])
  const again = restarted()
  await again.write(({ tx, of }) => {
    of('proj_a')?.machine.remove('node_b')
    deleteRolloutNode(tx, 'ro_a', 'node_b')
  })
  await again.write(turn => turn.of('proj_a')?.machine.add('node_b'))
  t.same(orderOf(again), ['node_a', 'node_b'])
  t.same(orderOf(restarted()), ['node_a', 'node_b'])
})
