import t from 'tap'
import { createLinks } from '../../../lib/fleet/hub/links.js'
import type { DesiredLine, OrderLine } from '../../../lib/model/fleet-wire.js'
import type { Voice } from '../../../lib/fleet/hub/voice.js'
import { setClock } from '../../support/clock.js'

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
