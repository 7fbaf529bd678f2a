import t from 'tap'
import type { Reply, Sink } from '../../../lib/http/core/route.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { openFleet } from '../../support/fleet-stage.js'
import { until } from '../../support/until.js'
import { createUploadRate } from '../../../lib/fleet/hub/hub.js'
import { setClock } from '../../support/clock.js'

t.test('continues open rollouts after a restart, with their pauses', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub, clock } = stage
  const id = await beginRollout(stage, { pause: 60 })
  const answer = (nodeId: string, answer: 'prepared' | 'good') =>
    hub.agents.report(nodeId, answerOf(stage, { id, nodeId, answer }))
  await answer('node_a', 'prepared')
  await answer('node_b', 'prepared')
  await answer('node_a', 'good')
  t.match(hub.rollouts.get(id), { state: 'pausing', pausedUntil: '2030-01-01T00:01:00.000Z' })
  await hub.stop()
  const again = stage.start()
  clock.advance(59_999)
  await again.tick()
  t.equal(again.rollouts.get(id).state, 'pausing')
  clock.advance(1)
  await again.agents.report('node_b', { version: '2.0.0', freeBytes: null, answers: [], placements: [] })
  await again.tick()
  t.match(again.rollouts.get(id), { state: 'swapping', wave: 2 })
  await again.agents.report('node_b', answerOf(stage, { id, nodeId: 'node_b', answer: 'good' }))
  t.equal(again.rollouts.get(id).state, 'done')
})

t.test('takes note of nodes that do not answer, and gives a late one what is desired then', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub, clock } = stage
  const id = await beginRollout(stage, { maxUnreachable: '50%' })
  const phases = () => hub.rollouts.get(id).nodes.map(({ phase }) => phase)
  const answer = (nodeId: string, answer: 'prepared' | 'good' | 'held') =>
    hub.agents.report(nodeId, answerOf(stage, { id, nodeId, answer }))
  await answer('node_a', 'prepared')
  clock.advance(59_000)
  await hub.tick()
  t.same(phases(), ['prepared', 'preparing'])
  await hub.agents.report('node_a', { version: '2.0.0', freeBytes: null, answers: [], placements: [] })
  clock.advance(1000)
  await hub.tick()
  t.same(phases(), ['swapping', 'unreachable'])
  await answer('node_a', 'good')
  t.equal(hub.rollouts.get(id).state, 'done')
  await answer('node_b', 'held')
  t.same(phases(), ['good', 'preparing'])
  await answer('node_b', 'prepared')
  await answer('node_b', 'good')
  t.same(phases(), ['good', 'good'])
})

t.test('tells connected nodes the address of a hub that joins', async t => {
  const { hub, addresses } = await openFleet(t, ['a'])
  const lines: string[] = []
  const sink = {
    signal: new AbortController().signal,
    sendHead() {},
    async write(text: string) {
      lines.push(text)
    }
  } as unknown as Sink
  const writing = hub.agents.desired({ nodeId: 'node_a', session: 's', counter: 1, protocol: 2 }, sink)
  await until(() => lines.length > 0)
  await hub.tick()
  addresses.push('https://second.example')
  await hub.tick()
  await hub.tick()
  await hub.stop()
  await writing
  const told = lines
    .join('')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { type: string; hubs: string[] })
    .filter(({ type }) => type === 'welcome')
  t.match(told, [{ hubs: ['https://hub.example'] }, { hubs: ['https://hub.example', 'https://second.example'] }])
  t.equal(told.length, 2)
})

t.test('names a node whose agent speaks the protocol of before', async t => {
  const { hub } = await openFleet(t, ['a', 'b'])
  const asked = { session: 's', counter: 1 }
  const open = (nodeId: string, protocol: number) => {
    const sink = { signal: new AbortController().signal, sendHead() {}, async write() {} } as unknown as Sink
    return hub.agents.desired({ ...asked, nodeId, protocol }, sink)
  }
  const writing = [open('node_a', 1), open('node_b', 2)]
  t.match(hub.nodes.list(), [{ isConnected: true, isOutdated: true }, { isConnected: true }])
  t.notOk(hub.nodes.get('node_b').isOutdated)
  await hub.stop()
  await Promise.all(writing)
  t.notOk(hub.nodes.get('node_a').isOutdated, 'a node that is not connected is not called outdated')
})

t.test('sends pieces no faster than the limit, all replies together', async t => {
  const clock = setClock()
  const waits: number[] = []
  let megabytes = 1
  const rate = createUploadRate({
    clock,
    megabytesPerSecond: () => megabytes,
    async wait(ms) {
      waits.push(Math.round(ms))
    }
  })
  const written: number[] = []
  const sink: Sink = {
    signal: new AbortController().signal,
    sendHead() {},
    async write(chunk) {
      written.push(chunk.length)
    }
  }
  const piece = Buffer.alloc(256 * 1024)
  const stream: Reply = { kind: 'stream', status: 200, headers: {}, run: sink => sink.write(piece) }
  const send = async (reply: Reply) => (reply.kind === 'stream' ? reply.run(sink) : t.fail('not a stream'))
  await send(rate.limited(stream))
  const file: Reply = { kind: 'file', open: async () => stream }
  const opened = rate.limited(file)
  if (opened.kind === 'file') await send(await opened.open({ method: 'GET', headers: {} }))
  t.same(waits, [250, 500], 'the second piece waits for the first')
  clock.advance(10_000)
  await send(rate.limited(stream))
  t.same(waits, [250, 500, 250], 'a silence is no credit')
  megabytes = 0
  await send(rate.limited(stream))
  t.same([waits.length, written.length], [3, 4])
  const empty: Reply = { kind: 'empty', status: 416 }
  t.equal(rate.limited(empty), empty)
})

t.test('a node is lost a minute after its last report, unless it is drained or never came', async t => {
  const { hub, clock } = await openFleet(t, ['a', 'b', 'c'])
  const report = (nodeId: string) =>
    hub.agents.report(nodeId, { version: '2.0.0', freeBytes: null, answers: [], placements: [] })
  const names = (): string[] => hub.presence().lost.map(({ name }) => name)
  await report('node_a')
  await report('node_b')
  t.same(names(), [])
  clock.advance(60_000)
  t.equal(names().length, 2, 'the third one never came')
  await report('node_a')
  t.equal(names().length, 1)
  await hub.nodes.drain('node_b', true, { name: 'admin', ip: null })
  t.same(names(), [], 'somebody works on a drained node')
})
