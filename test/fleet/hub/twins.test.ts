import t from 'tap'
import type { Sink } from '../../../lib/http/core/route.js'
import type { DesiredLine } from '../../../lib/model/fleet-wire.js'
import { listAudit } from '../../../lib/store/tables/audit.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'

type Stage = Awaited<ReturnType<typeof openFleet>>

/** Resolves when what was written and sent before has arrived. */
async function settled(store: Stage['store']): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await store.write(() => {})
    await new Promise(resolve => setImmediate(resolve))
  }
}

/** Opens the stream of node_a for a start of an agent. Returns the types of the lines that it gets. */
async function connect({ store }: Stage, hub: Stage['hub'], instance?: string) {
  const ending = new AbortController()
  const types: string[] = []
  const sink = {
    signal: ending.signal,
    sendHead() {},
    async write(text: string) {
      const lines = text.trim().split('\n')
      types.push(...lines.map(line => (JSON.parse(line) as DesiredLine).type).filter(type => type !== 'heartbeat'))
    }
  } as unknown as Sink
  const asked = { nodeId: 'node_a', session: 's', counter: 1, protocol: 2 }
  const running = hub.agents.desired({ ...asked, instance }, sink)
  await settled(store)
  return { types, running, leave: () => ending.abort() }
}

const actions = (stage: Stage): string[] =>
  listAudit(stage.store, { limit: 20 })
    .map(({ action }) => action)
    .filter(action => action.startsWith('node.'))

t.test('two machines with one identity are found, and get no orders until one is gone for minutes', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub, clock } = stage
  await connect(stage, hub, 'one')
  clock.advance(5000)
  t.match(await connect(stage, hub, 'two'), { types: ['welcome'] })
  t.equal(hub.nodes.get('node_a').sharedSince, null, 'it may be an agent that started again')
  const at = new Date(clock.now()).toISOString()
  await connect(stage, hub, 'one')
  t.equal(hub.nodes.get('node_a').sharedSince, at)
  t.same(actions(stage), ['node.shared'])

  const id = await beginRollout(stage, { maxUnreachable: '50%' })
  t.match(hub.rollouts.node(id, 'node_a'), { phase: 'unreachable', error: /Two machines use the identity/ })
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'held' }))
  t.equal(hub.rollouts.node(id, 'node_a').phase, 'unreachable', 'its answer is not believed')

  await hub.stop()
  const again = stage.start()
  await again.tick()
  t.equal(again.nodes.get('node_a').sharedSince, at, 'a hub that starts again knows it')
  clock.advance(10 * 60_000)
  await again.tick()
  t.equal(again.nodes.get('node_a').sharedSince, at, 'nothing is known while neither is connected')
  /** Lets time pass in which the node reports. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 30_000) {
      await again.agents.report('node_a', { version: '2.0.0', freeBytes: null, answers: [], placements: [] })
      clock.advance(Math.min(left, 30_000))
      await again.tick()
    }
  }
  const last = await connect(stage, again, 'two')
  await pass(2 * 60_000)
  await connect(stage, again, 'one')
  const { types, running } = await connect(stage, again, 'two')
  t.same(last.types, ['welcome'])
  await pass(3 * 60_000 - 1)
  t.equal(again.nodes.get('node_a').sharedSince, at)
  t.notOk(types.includes('order'))
  await pass(1)
  await running
  t.equal(again.nodes.get('node_a').sharedSince, null)
  t.same(actions(stage), ['node.single', 'node.shared'])
  t.same(
    (await connect(stage, again, 'two')).types,
    ['welcome', 'order'],
    'it connects again, and gets what it has missed'
  )
})

t.test('one agent that starts again, is away, or is of an earlier version is one machine', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, clock } = stage
  await beginRollout(stage)
  for (let start = 0; start < 40; start++) {
    const { types, leave, running } = await connect(stage, hub, `start ${start}`)
    t.same(types, ['welcome', 'order'])
    leave()
    await running
    clock.advance(1000)
  }
  // The machine lost its power, and the hub still has its stream.
  await connect(stage, hub, 'before')
  const { types } = await connect(stage, hub, 'after')
  t.same(types, ['welcome'])
  clock.advance(15_000)
  await hub.tick()
  await settled(stage.store)
  t.same(types, ['welcome', 'order'], 'the other one did not come back')
  await connect(stage, hub, 'after')
  // A machine that slept while its data directory was used elsewhere.
  await connect(stage, hub, 'elsewhere')
  clock.advance(61_000)
  await connect(stage, hub, 'after')
  for (let times = 0; times < 4; times++) await connect(stage, hub)
  t.equal(hub.nodes.get('node_a').sharedSince, null)
  t.same(actions(stage), [])
})

t.test('a node that was forgotten leaves nothing behind', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store } = stage
  for (const instance of ['one', 'two', 'one']) await connect(stage, hub, instance)
  t.not(hub.nodes.get('node_a').sharedSince, null)
  await hub.nodes.forget('node_a', ana)
  await hub.tick()
  t.same(store.all('SELECT id FROM nodes'), [])
})
