import t from 'tap'
import { Machine } from '../../lib/fleet/machine.js'
import { planWaves } from '../../lib/fleet/waves.js'
import { defaultRolloutPolicy, type NodeAnswer, type RolloutPolicy } from '../../lib/model/rollout.js'

/** A rollout to nodes `a`, `b`, … Each answers its newest order, unless a test says otherwise. */
function stage(count: number, policy: Partial<RolloutPolicy> = {}) {
  const clock = { ms: 1e12 }
  const drained = new Set<string>()
  const ids = Array.from({ length: count }, (_, at) => String.fromCharCode(97 + at))
  const whole = { ...defaultRolloutPolicy, ...policy }
  const plan = planWaves(
    ids.map(id => ({ id, name: id, labels: {}, isDrained: false })),
    whole
  )
  const machine = new Machine(
    {
      id: 'ro_1',
      projectId: 'proj_1',
      number: 1,
      deployId: 'dep_1',
      treeSha256: '',
      policy: whole,
      state: 'preparing',
      wave: 0,
      waves: plan.waves,
      lastAttempt: 0,
      pausedUntil: null,
      revertFrom: null,
      haltedReason: null,
      createdAt: '',
      endedAt: null
    },
    plan.nodes,
    { now: () => clock.ms, isDrained: id => drained.has(id) }
  )
  const say = (answer: NodeAnswer, ...nodes: string[]): boolean[] =>
    nodes.map(nodeId => machine.answer({ nodeId, attempt: machine.orderOf(nodeId).attempt, answer, error: 'why' }))
  const actions = (): string => ids.map(id => machine.orderOf(id).action).join(' ')
  const phases = (): string => ids.map(id => machine.node(id)?.phase).join(' ')
  machine.start()
  return { machine, clock, drained, ids, say, actions, phases, state: () => machine.rollout.state }
}

t.test('all nodes prepare, then put the files in place wave by wave', async t => {
  const { machine, say, actions, state, ids } = stage(5, { then: '2' })
  t.equal(actions(), 'prepare prepare prepare prepare prepare')
  say('prepared', ...ids.slice(0, 4))
  t.equal(state(), 'preparing')
  t.equal(actions(), 'hold hold hold hold prepare', 'nobody begins before all are prepared')
  say('prepared', 'e')
  t.equal(actions(), 'swap hold hold hold hold')
  t.match(machine.takeChanged(), { length: 5 })
  t.same(machine.takeChanged(), [])
  t.same([...say('begun', 'a'), ...say('good', 'a')], [true, true])
  t.equal(actions(), 'none swap swap hold hold')
  t.same(say('good', 'a'), [false], 'a doubled answer')
  say('good', 'b', 'c')
  say('good', 'd')
  t.equal(state(), 'swapping')
  say('good', 'e')
  t.match(machine.rollout, { state: 'done', wave: 3, endedAt: /Z$/ })
})

t.test('waits for a time, or for an approval, between waves', async t => {
  const paused = stage(2, { pause: 60 })
  paused.say('prepared', 'a', 'b')
  paused.say('good', 'a')
  t.match(paused.machine.rollout, { state: 'pausing', pausedUntil: new Date(1e12 + 60_000).toISOString() })
  paused.machine.tick()
  t.equal(paused.actions(), 'none hold')
  paused.clock.ms += 60_000
  paused.machine.tick()
  t.equal(paused.actions(), 'none swap')

  const asked = stage(3, { pause: 'approve', then: '1' })
  asked.say('prepared', 'a', 'b', 'c')
  asked.say('good', 'a')
  t.equal(asked.state(), 'approval')
  asked.machine.tick()
  t.equal(asked.actions(), 'none hold hold')
  asked.machine.approve()
  t.equal(asked.actions(), 'none swap hold')
  asked.machine.approve()
  t.equal(asked.actions(), 'none swap hold', 'one approval, one wave')
})

t.test('halts when too many nodes fail, and nobody else begins', async t => {
  const { machine, say, actions, phases, state } = stage(5, { canary: 4, maxFailures: 1 })
  say('prepared', 'a', 'b', 'c', 'd', 'e')
  say('begun', 'c')
  say('failed', 'a')
  t.equal(state(), 'swapping')
  say('failed', 'b')
  t.match(machine.rollout, { state: 'halted', haltedReason: '2 failed (allowed: 1)' })
  t.equal(actions(), 'none none swap hold hold')
  t.equal(phases(), 'failed failed swapping withdrawing prepared')
  t.match(machine.node('a'), { error: 'why' })
  say('held', 'd')
  say('good', 'c')
  t.equal(phases(), 'failed failed good prepared prepared')
  machine.resume()
  t.equal(actions(), 'prepare prepare none hold hold')
  say('prepared', 'a', 'b')
  t.equal(actions(), 'swap swap none swap hold', 'the wave goes on with those that it lacks')
  say('good', 'a', 'b', 'd')
  say('good', 'e')
  t.equal(state(), 'done')
})

t.test('a node that cannot prepare counts as a failure before anything is changed', async t => {
  const { machine, say, state, actions } = stage(3, { onFailure: 'revert_all' })
  say('prepared', 'a')
  say('refused', 'b')
  t.equal(state(), 'halted')
  t.equal(machine.rollout.wave, 0)
  t.equal(actions(), 'hold none none')
})

t.test('lets a wave, or all, go back', async t => {
  for (const onFailure of ['revert_wave', 'revert_all'] as const) {
    const { machine, say, state, actions, phases } = stage(5, { then: '2', onFailure })
    say('prepared', 'a', 'b', 'c', 'd', 'e')
    say('good', 'a')
    say('good', 'b')
    say('begun', 'c')
    machine.lost('x')
    say('failed', 'c')
    t.equal(state(), 'reverting')
    t.equal(actions(), `${onFailure === 'revert_all' ? 'revert' : 'none'} revert none hold hold`)
    say('reverted', 'a', 'b')
    t.match(machine.rollout, { state: 'reverted', revertFrom: onFailure === 'revert_all' ? 1 : 2 })
    t.equal(phases(), `${onFailure === 'revert_all' ? 'reverted' : 'good'} reverted failed prepared prepared`)
  }
})

t.test('a user lets a finished rollout go back; a node that cannot is stuck', async t => {
  const { machine, say, state, phases } = stage(2)
  say('prepared', 'a', 'b')
  say('good', 'a')
  say('good', 'b')
  machine.halt('too late')
  t.equal(state(), 'done')
  machine.revert(1, 'by ana')
  say('reverted', 'a')
  say('stuck', 'b')
  t.equal(state(), 'reverted')
  t.equal(phases(), 'reverted stuck')
  machine.resume()
  t.equal(phases(), 'preparing preparing')
})

t.test('of a node that does not answer nothing is assumed', async t => {
  const { machine, say, state, actions, phases } = stage(4, { then: '1', maxUnreachable: '50%' })
  say('prepared', 'a', 'b', 'c')
  machine.lost('d')
  t.equal(phases(), 'swapping prepared prepared unreachable')
  const { attempt } = machine.orderOf('a')
  machine.lost('a')
  t.match(machine.rollout, { state: 'halted', haltedReason: 'Too many nodes do not say whether they have the release' })
  t.equal(actions(), 'hold hold hold hold')
  t.same([machine.answer({ nodeId: 'a', attempt, answer: 'good' })], [false], 'an answer to an earlier order')
  t.same(say('good', 'a'), [true])
  machine.resume()
  t.equal(phases(), 'good swapping prepared skipped')
  say('good', 'b')
  say('good', 'c')
  t.equal(state(), 'done')
  t.equal(phases(), 'good good good skipped')
  say('held', 'd')
  t.equal(actions(), 'none none none prepare', 'it gets what the others have')
  say('prepared', 'd')
  say('good', 'd')
  t.equal(phases(), 'good good good good')
})

t.test('halts when too many nodes are unreachable', async t => {
  const { machine, say, actions } = stage(3, { maxUnreachable: '1' })
  say('prepared', 'a')
  machine.lost('b')
  machine.lost('a')
  t.match(machine.rollout, { state: 'halted', haltedReason: '2 nodes unreachable (allowed: 1)' })
  t.equal(actions(), 'hold hold none')
  t.same(say('held', 'a'), [true])
  t.equal(machine.node('a')?.phase, 'pending')
})

t.test('drained nodes are left out, and added ones get the release later', async t => {
  const { machine, say, drained, phases, state } = stage(3)
  drained.add('c')
  machine.drain('c')
  say('prepared', 'a', 'b')
  say('good', 'a')
  machine.add('d')
  t.equal(machine.orderOf('d').action, 'hold', 'it is asked what it has')
  say('held', 'd')
  t.equal(machine.node('d')?.phase, 'preparing')
  machine.remove('b')
  t.equal(state(), 'done')
  t.equal(machine.orderOf('b').action, 'none')
  t.equal(machine.orderOf('d').action, 'prepare')
  t.same(say('held', 'c'), [true])
  t.equal(phases(), 'good  skipped', 'it is still drained')
  drained.delete('c')
  machine.wake('c')
  say('held', 'c')
  t.equal(machine.orderOf('c').action, 'prepare')
})

t.test('a node that was set back to a snapshot gets what is desired, or goes back', async t => {
  const done = stage(2)
  done.say('prepared', 'a', 'b')
  done.say('good', 'a')
  done.say('good', 'b')
  t.same(done.say('held', 'a'), [true])
  t.equal(`${done.state()}: ${done.actions()}`, 'done: prepare none')
  done.say('prepared', 'a')
  t.equal(done.actions(), 'swap none')
  done.say('good', 'a')
  done.machine.revert(1, 'by hand')
  done.say('reverted', 'a', 'b')
  t.equal(done.phases(), 'reverted reverted')
  t.same(done.say('good', 'b'), [true])
  t.equal(done.actions(), 'none revert')
  const halted = stage(2)
  halted.say('prepared', 'a', 'b')
  halted.say('stuck', 'a')
  t.same(halted.say('held', 'a'), [true])
  t.equal(halted.phases(), 'pending prepared', 'after a halt, it does not begin')
})

t.test('late nodes are no more at once than a wave, and stop when one fails', async t => {
  const { machine, say, actions, state } = stage(5, { then: '2', maxUnreachable: '100%' })
  for (const id of ['b', 'c', 'd', 'e']) machine.lost(id)
  say('prepared', 'a')
  say('good', 'a')
  t.equal(state(), 'done')
  say('held', 'b', 'c', 'd', 'e')
  say('prepared', 'b', 'c', 'd', 'e')
  t.equal(actions(), 'none swap swap hold hold')
  say('failed', 'b')
  say('good', 'c')
  t.equal(actions(), 'none none none hold hold')
  t.equal(state(), 'done')
})

t.test('a rollout whose last node is removed is halted: nothing has its release', async t => {
  const { machine, say, state } = stage(2)
  say('prepared', 'a')
  machine.remove('b')
  t.equal(state(), 'swapping', 'the others go on')
  machine.remove('a')
  t.equal(state(), 'halted')
  machine.resume()
  t.equal(state(), 'halted')
})

t.test('a node that is placed again is asked what it has, with an order that it does not know', async t => {
  const { machine, say } = stage(2)
  say('prepared', 'a', 'b')
  say('good', 'a')
  say('good', 'b')
  const { attempt } = machine.orderOf('a')
  machine.remove('a')
  machine.add('a')
  t.ok(machine.orderOf('a').attempt > attempt)
  t.equal(machine.orderOf('a').action, 'hold')
  machine.revert(1, 'by ana')
  say('good', 'a')
  t.equal(machine.orderOf('a').action, 'revert', 'it had the release all the time')
})

t.test('a stuck node that tries once more still has the release', async t => {
  const { machine, say, phases, state } = stage(2, { then: '1' })
  say('prepared', 'a', 'b')
  say('stuck', 'a')
  t.equal(state(), 'halted')
  machine.resume()
  t.equal(phases(), 'preparing prepared')
  machine.halt('wait')
  t.equal(phases(), 'stuck prepared')
  machine.resume()
  say('refused', 'a')
  t.equal(phases(), 'stuck prepared')
  machine.resume()
  say('prepared', 'a')
  machine.halt('wait')
  say('stuck', 'a')
  machine.revert(1, 'by ana')
  t.equal(phases(), 'reverting prepared')
})

t.test('a node that has not begun has its earlier files, also if it was told to begin', async t => {
  const { machine, say, phases } = stage(2, { canary: 2 })
  say('prepared', 'a', 'b')
  say('failed', 'b')
  t.equal(phases(), 'withdrawing failed')
  machine.lost('a')
  machine.resume()
  t.equal(phases(), 'skipped preparing')
  say('held', 'a')
  t.equal(phases(), 'preparing preparing')
  machine.halt('a user')
  t.equal(phases(), 'pending pending', 'a is not stuck with the release')
})

t.test('a node that goes back while the rollout is resumed gets the release again', async t => {
  const { machine, say, phases, state } = stage(2)
  say('prepared', 'a', 'b')
  say('good', 'a')
  say('good', 'b')
  machine.revert(1, 'by ana')
  machine.halt('wait')
  say('reverted', 'a')
  t.equal(phases(), 'reverted reverting')
  machine.resume()
  say('reverted', 'b')
  t.equal(phases(), 'preparing preparing')
  say('prepared', 'a', 'b')
  say('good', 'a', 'b')
  t.equal(state(), 'done')
})

t.test('after a restore of the hub, what was going on or open is halted, and nobody begins', async t => {
  const going = stage(3, { canary: 3 })
  going.say('prepared', 'a', 'b', 'c')
  going.say('begun', 'a')
  going.say('good', 'b')
  going.machine.restored('restored')
  t.equal(going.state(), 'halted')
  t.equal(going.actions(), 'hold none hold')
  going.say('held', 'a', 'c')
  t.equal(going.phases(), 'prepared good prepared')
  const done = stage(2, { maxUnreachable: '50%', canary: 2 })
  done.machine.lost('b')
  done.say('prepared', 'a')
  done.say('good', 'a')
  t.equal(done.state(), 'done')
  done.machine.restored('restored')
  t.equal(done.state(), 'halted')
  done.say('held', 'b')
  t.equal(done.phases(), 'good pending', 'a late node does not get it')
  const whole = stage(1)
  whole.say('prepared', 'a')
  whole.say('good', 'a')
  whole.machine.restored('restored')
  t.equal(whole.state(), 'done')
})

t.test('a pause is never longer than the policy says, also if the clock is set back', async t => {
  const { say, machine, clock, state } = stage(2, { pause: 60 })
  say('prepared', 'a', 'b')
  say('good', 'a')
  t.notOk(machine.isDue())
  clock.ms -= 86_400_000
  t.ok(machine.isDue())
  machine.tick()
  t.match(machine.rollout, { state: 'pausing', pausedUntil: new Date(clock.ms + 60_000).toISOString() })
  clock.ms += 60_000
  machine.tick()
  t.same([state(), machine.isDue()], ['swapping', false])
})

t.test('a restored hub does not repeat open orders, whatever the state of the rollout', async t => {
  const halted = stage(2, { canary: 2 })
  halted.say('prepared', 'a', 'b')
  halted.say('begun', 'a', 'b')
  halted.machine.halt('by hand')
  t.equal(halted.phases(), 'swapping swapping', 'they finish what they have begun')
  halted.machine.restored('restored')
  t.equal(halted.actions(), 'hold hold')
  const reverted = stage(2, { canary: 2 })
  reverted.say('prepared', 'a', 'b')
  reverted.say('good', 'a', 'b')
  reverted.machine.revert(1, 'by hand')
  reverted.machine.restored('restored')
  t.equal(reverted.actions(), 'hold hold')
  reverted.say('good', 'a', 'b')
  t.same([reverted.state(), reverted.phases()], ['halted', 'good good'], 'it may have been resumed since the backup')
})

t.test('a node that ignores an order has failed, and says why', async t => {
  const { say, machine, phases, state } = stage(1)
  say('ignored', 'a')
  t.same([phases(), state(), machine.node('a')?.error], ['failed', 'halted', 'why'])
})
