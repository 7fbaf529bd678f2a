import t from 'tap'
import { createUploadRate } from '../../../lib/fleet/hub/upload-rate.js'
import type { Reply, Sink } from '../../../lib/http/core/route.js'
import { setClock } from '../../support/clock.js'

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
