import t from 'tap'
import { keptAlive } from '../../../lib/http/stream/kept-alive.js'
import type { Sink } from '../../../lib/http/core/route.js'

/** A sink whose client reads when the test lets it. */
function sinkOf() {
  const written: string[] = []
  const reads: Array<() => void> = []
  let wake = (): void => {}
  const write = (chunk: string | Uint8Array): Promise<void> => {
    written.push(String(chunk))
    wake()
    return new Promise(resolve => reads.push(resolve))
  }
  return {
    sink: { write } as unknown as Sink,
    written,
    read: (): void => reads.splice(0).forEach(resolve => resolve()),
    next: (): Promise<void> => new Promise(resolve => (wake = resolve))
  }
}

t.test('writes the text while there is nothing else, and stops with the stream', async t => {
  const { sink, written, read, next } = sinkOf()
  let end = (): void => {}
  const running = keptAlive(sink, { text: '\n', everyMs: 5 }, async write => {
    const first = write('one')
    read()
    await first
    await new Promise<void>(resolve => (end = resolve))
  })
  await next()
  read()
  await next()
  t.same(written, ['one', '\n', '\n'])
  read()
  end()
  await running
  const count = written.length
  await new Promise(resolve => setTimeout(resolve, 30))
  t.equal(written.length, count)
})

t.test('a client that does not read gets no texts', async t => {
  const { sink, written, read } = sinkOf()
  const running = keptAlive(sink, { text: '\n', everyMs: 5 }, write => write('one'))
  await new Promise(resolve => setTimeout(resolve, 50))
  t.same(written, ['one'])
  read()
  await running
})

t.test('the failure of the stream is that of what runs', async t => {
  const { sink } = sinkOf()
  await t.rejects(
    keptAlive(sink, { text: '\n', everyMs: 5 }, async () => {
      throw new Error('gone')
    }),
    { message: 'gone' }
  )
})
