import t from 'tap'
import { createLinks, createPresence } from '../../../lib/fleet/hub/links.js'
import type { DesiredLine, OrderLine } from '../../../lib/model/fleet-wire.js'
import type { Voice } from '../../../lib/fleet/hub/voice.js'
import { setClock } from '../../support/clock.js'
import { isCrowded } from '../../support/listened.js'
import { findNode } from '../../../lib/core/store/tables/fleet.js'
import { ana, aNode, openFleet } from '../../support/fleet-stage.js'
import type { Sink } from '../../../lib/http/core/route.js'
import { listAudit } from '../../../lib/core/store/tables/audit.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'

const say: Voice = async lines => lines.map(line => `${JSON.stringify(line)}\n`).join('')

/** A sink that takes a text when the test lets it. */
function heldSink() {
  const gone = new AbortController()
  const taken: DesiredLine[] = []
  let release = (): void => {}
  const sink = {
    signal: gone.signal,
    sendHead() {},
    async write(chunk: string | Uint8Array) {
      for (const line of String(chunk).trim().split('\n')) taken.push(JSON.parse(line) as DesiredLine)
      await new Promise<void>(resolve => (release = resolve))
    }
  }
  const settled = () => new Promise(resolve => setImmediate(resolve))
  return { sink, taken, gone, settled, release: () => release() }
}

const order = (projectId: string, attempt: number) => ({ type: 'order', projectId, attempt }) as OrderLine

t.test('sends lines in order, and only the newest order of a project to a slow node', async t => {
  const links = createLinks(setClock())
  const link = links.open({ nodeId: 'node_a', say })
  const { sink, taken, release, settled } = heldSink()
  const running = link.run(sink)
  t.equal(links.find('node_a'), link)
  t.equal(await isCrowded(link.ended), false, 'many relays may wait for its end')
  t.equal(link.send({ type: 'unplaced', projectId: 'p' }), 'queued')
  await settled()
  for (const attempt of [1, 2, 3]) link.send(order('proj_a', attempt))
  link.send(order('proj_b', 1))
  release()
  await settled()
  t.same(taken, [{ type: 'unplaced', projectId: 'p' }, order('proj_a', 3), order('proj_b', 1)])
  links.close('node_a')
  release()
  await running
  t.equal(links.find('node_a'), null)
  t.equal(link.send({ type: 'heartbeat' }), 'ended')
})

t.test('refuses lines when too many wait', async t => {
  const links = createLinks(setClock())
  const link = links.open({ nodeId: 'node_a', say })
  const sent = Array.from({ length: 300 }, () => link.send({ type: 'unplaced', projectId: 'p' }))
  t.same([sent.indexOf('full'), new Set(sent)], [256, new Set(['queued', 'full'])])
  t.equal(link.send(order('proj_a', 1)), 'queued', 'orders have their own place')
})

t.test('ends the earlier stream of a node, and the one whose client is gone', async t => {
  const links = createLinks(setClock())
  const [first, second] = [heldSink(), heldSink()]
  const earlier = links.open({ nodeId: 'node_a', say })
  const running = earlier.run(first.sink)
  const later = links.open({ nodeId: 'node_a', say })
  await running
  t.ok(earlier.ended.aborted)
  t.equal(links.find('node_a'), later)
  t.equal(links.count(), 1)
  const rest = later.run(second.sink)
  second.gone.abort()
  await rest
  t.same([...links.connected()], [])
})

t.test('sends a heartbeat to a stream that was silent, and ends one that takes nothing', async t => {
  const clock = setClock()
  const links = createLinks(clock)
  const { sink, taken, release, settled } = heldSink()
  const running = links.open({ nodeId: 'node_a', say }).run(sink)
  await links.beat()
  await settled()
  t.same(taken, [])
  clock.advance(15_000)
  await links.beat()
  await settled()
  t.same(taken, [{ type: 'heartbeat' }])
  clock.advance(59_000)
  await links.beat()
  t.equal(links.count(), 1)
  clock.advance(1000)
  await links.beat()
  t.equal(links.count(), 0)
  release()
  await running
})

t.test('knows when nodes were heard of, and writes it now and then', async t => {
  const { store, clock } = await openFleet(t, ['a', 'b'])
  const presence = createPresence({ store, clock })
  const before = store.sequence()
  presence.heard('node_a')
  t.equal(presence.lastSeenOf(aNode('a')), '2030-01-01T00:00:00.000Z')
  t.equal(presence.lastSeenOf(aNode('b', { lastSeenAt: 'before' })), 'before')
  await presence.write()
  t.equal(store.sequence(), before, 'not at each report')
  clock.advance(5 * 60_000)
  await presence.write()
  t.equal(findNode(store, 'node_a')?.lastSeenAt, '2030-01-01T00:00:00.000Z')
  presence.heard('node_b')
  await presence.write({ now: true })
  t.equal(findNode(store, 'node_b')?.lastSeenAt, '2030-01-01T00:05:00.000Z')
})

t.test('a node is lost after a minute, from the start of the hub on', async t => {
  const { store, clock } = await openFleet(t, ['a', 'b'])
  const presence = createPresence({ store, clock })
  clock.advance(59_999)
  presence.heard('node_a')
  t.notOk(presence.isLost('node_b'))
  clock.advance(1)
  t.ok(presence.isLost('node_b'))
  t.notOk(presence.isLost('node_a'))
  clock.advance(60_000)
  t.ok(presence.isLost('node_a'))
})

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
