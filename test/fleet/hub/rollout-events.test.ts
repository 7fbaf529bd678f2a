import t from 'tap'
import type { RolloutEvent } from '../../../lib/model/rollout.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'

t.test('yields the rollout, what changes, and the end', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub } = stage
  const id = await beginRollout(stage)
  const events = hub.rollouts.follow(id, new AbortController().signal)[Symbol.asyncIterator]()
  const next = async (): Promise<RolloutEvent> => (await events.next()).value as RolloutEvent
  t.match(await next(), { type: 'rollout', rollout: { state: 'preparing', nodes: [{}, {}] } })
  t.equal(hub.figures().followers, 1)
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'prepared' }))
  t.match(await next(), { type: 'node', node: { nodeName: 'plant-a', phase: 'prepared' } })
  t.match(await next(), { type: 'state', rollout: { counts: { prepared: 1, preparing: 1 } } })
  await hub.agents.report('node_b', answerOf(stage, { id, nodeId: 'node_b', answer: 'prepared' }))
  await hub.rollouts.halt(id, null, ana)
  const rest: RolloutEvent[] = []
  for (;;) {
    const { value, done } = await events.next()
    if (done) break
    rest.push(value as RolloutEvent)
  }
  t.match(rest.at(-1), { type: 'end', rollout: { state: 'halted' } })
  const names = rest.flatMap(event => (event.type === 'node' ? event.node.nodeName : []))
  t.same(names.sort(), ['plant-a', 'plant-b'], 'a slow follower gets each node once')
  t.equal(hub.figures().followers, 0)
})

t.test('ends at once for a rollout that has ended, and when it is given up', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub } = stage
  const id = await beginRollout(stage)
  const stop = new AbortController()
  const events = hub.rollouts.follow(id, stop.signal)[Symbol.asyncIterator]()
  await events.next()
  const waiting = events.next()
  stop.abort(new Error('enough'))
  await t.rejects(waiting, /enough/)
  await hub.rollouts.halt(id, null, ana)
  const types: string[] = []
  for await (const { type } of hub.rollouts.follow(id, new AbortController().signal)) types.push(type)
  t.same(types, ['rollout', 'end'])
  t.throws(() => hub.rollouts.follow('ro_x', stop.signal), { code: 'not_found' })
})
