import t from 'tap'
import { answerOf, beginning, ended, obey, workOf } from '../../lib/fleet/duty.js'
import type { DutyState, NodeOrder } from '../../lib/model/fleet-wire.js'

const order = (attempt: number, action: NodeOrder['action'], number = 1): NodeOrder => ({
  epoch: 'e1',
  rolloutId: `ro_${number}`,
  number,
  attempt,
  action
})
const after = (state: DutyState | null, given: NodeOrder): DutyState =>
  (obey(state, given) as { state: DutyState }).state

t.test('only a newer order is obeyed', async t => {
  const state = after(null, order(2, 'prepare'))
  t.same(obey(state, order(2, 'swap')), { ignored: 'known' })
  t.same(obey(state, order(1, 'swap')), { ignored: 'known' })
  t.match(after(state, order(3, 'swap')), { action: 'swap' })
  const done = { ...state, hasPrepared: true, outcome: 'good' } as const
  t.match(obey(done, order(9, 'swap', 0)), { ignored: { why: /later rollout ro_1/ } }, 'of an earlier rollout')
  t.match(after(done, order(1, 'prepare', 2)), { hasPrepared: false, outcome: 'none', rolloutId: 'ro_2' })
})

t.test('prepares, waits, puts the files in place, goes back', async t => {
  let state = after(null, order(1, 'prepare'))
  t.equal(workOf(state), 'prepare')
  t.equal(answerOf(state), null)
  state = ended(state, { begun: beginning(state, 'prepare'), result: 'prepared' })
  t.equal(workOf(state), null)
  t.match(answerOf(state), { answer: 'prepared', attempt: 1 })
  state = after(state, order(2, 'swap'))
  t.equal(workOf(state), 'swap')
  const begun = beginning(state, 'swap')
  t.match(answerOf(begun), { answer: 'begun', attempt: 2 })
  state = ended(begun, { begun, result: 'good' })
  t.match(answerOf(state), { answer: 'good' })
  t.equal(workOf(state), null)
  state = after(state, order(3, 'revert'))
  t.equal(workOf(state), 'revert')
  const goingBack = beginning(state, 'revert')
  t.equal(answerOf(goingBack), null)
  t.match(answerOf(ended(goingBack, { begun: goingBack, result: 'reverted' })), { answer: 'reverted', attempt: 3 })
  const stuck = ended(goingBack, { begun: goingBack, result: 'stuck', error: 'the disk is full' })
  t.match(answerOf(stuck), { answer: 'stuck', error: 'the disk is full' })
  t.equal(workOf(stuck), null)
  t.equal(workOf(after(stuck, order(4, 'revert'))), 'revert', 'it is tried again')
})

t.test('an order to hold is answered with what the node has', async t => {
  const prepared = { ...after(null, order(1, 'prepare')), hasPrepared: true }
  t.match(answerOf(after(prepared, order(2, 'hold'))), { answer: 'held' })
  const swap = after(prepared, order(2, 'swap'))
  const begun = beginning(swap, 'swap')
  const held = after(begun, order(3, 'hold'))
  t.match(answerOf(held), { answer: 'begun', attempt: 3 })
  t.match(answerOf(ended(held, { begun, result: 'failed', error: 'check' })), { answer: 'failed', attempt: 3 })
  const reverting = after(
    beginning(after(ended(held, { begun, result: 'good' }), order(4, 'revert')), 'revert'),
    order(5, 'hold')
  )
  t.equal(answerOf(reverting), null, 'it is not known yet whether the release is in place')
})

t.test('a node that was set back to a snapshot says what it has, unless the hub was restored since', async t => {
  const good = { ...after(null, order(2, 'swap')), outcome: 'good', doneAttempt: 2 } as const
  t.match(answerOf(after(good, order(4, 'none', 2))), { rolloutId: 'ro_2', answer: 'held', attempt: 4 })
  t.match(answerOf(after(good, order(3, 'none'))), { rolloutId: 'ro_1', answer: 'good', attempt: 3 })
  t.match(answerOf(after(null, order(2, 'none'))), { answer: 'held' })
  t.match(answerOf(after({ ...good, outcome: 'reverted' }, order(3, 'none'))), { answer: 'held' })
  for (const outcome of ['stuck', 'begun'] as const)
    t.equal(answerOf(after({ ...good, outcome }, order(3, 'none'))), null, outcome)
  for (const given of [order(4, 'none', 2), order(3, 'none'), order(1, 'none')])
    t.equal(answerOf(after(good, { ...given, epoch: 'e2' })), null, 'the node may know what the hub does not')
  const asked = after(good, order(3, 'prepare'))
  t.same([workOf(asked), answerOf(asked)?.answer], [null, 'good'], 'it has the release, and need not fetch it')
})

t.test('a node that refused or failed is asked again by a newer order', async t => {
  const state = after(null, order(1, 'prepare'))
  const refused = ended(state, { begun: state, result: 'refused', error: 'no space' })
  t.match(answerOf(refused), { answer: 'refused', error: 'no space' })
  t.equal(workOf(refused), null)
  t.equal(workOf(after(refused, order(2, 'prepare'))), 'prepare')
  const begun = beginning(after({ ...state, hasPrepared: true }, order(2, 'swap')), 'swap')
  const failed = ended(begun, { begun, result: 'failed' })
  t.match(answerOf(failed), { answer: 'failed' })
  t.equal(workOf(after(failed, order(4, 'swap'))), 'swap')
  t.match(answerOf(after(failed, order(3, 'prepare'))), { answer: 'prepared' }, 'what was prepared is still there')
})

t.test('the end of a work for an earlier rollout changes nothing', async t => {
  const begun = beginning(after(null, order(1, 'swap')), 'swap')
  const next = after(begun, order(1, 'prepare', 2))
  t.equal(ended(next, { begun, result: 'good' }), next)
})

t.test('a rollout with the number of another one is another one', async t => {
  const done = { ...after(null, order(3, 'swap')), outcome: 'good', doneAttempt: 3 } as const
  const other = { ...order(4, 'swap'), rolloutId: 'ro_other' }
  t.match(obey(done, other), { ignored: { why: /later rollout ro_1 \(number 1, not 1\)/ } })
  t.match(after(done, { ...other, epoch: 'e2' }), { rolloutId: 'ro_other', outcome: 'none', epoch: 'e2' })
})

t.test(
  'after a restore of the hub, its orders are obeyed, whatever their numbers; those of the hub before are not',
  async t => {
    const good = { ...after(null, order(5, 'swap', 3)), hasPrepared: true, outcome: 'good', doneAttempt: 5 } as const
    const restored = (attempt: number, action: NodeOrder['action'], number: number): NodeOrder => ({
      ...order(attempt, action, number),
      epoch: 'e2'
    })
    t.match(after(good, restored(1, 'prepare', 2)), { rolloutId: 'ro_2', outcome: 'none', attempt: 1 })
    t.match(obey(good, restored(1, 'prepare', 4), { isReplaced: true }), { ignored: { why: /restored after/ } })
    const same = after(good, restored(2, 'hold', 3))
    t.match(answerOf(same), { answer: 'good', attempt: 2 }, 'a rollout that both know goes on')
    const failed = { ...good, outcome: 'failed' } as const
    t.equal(workOf(after(failed, restored(5, 'swap', 3))), null, 'the same order again is done')
    t.equal(workOf(after(failed, restored(2, 'swap', 3))), 'swap', 'a number that comes again is another order')
    const begun = beginning(failed, 'swap')
    const held = after(begun, restored(2, 'hold', 3))
    t.match(answerOf(ended(held, { begun, result: 'good' })), { answer: 'good', attempt: 2 })
  }
)
