import t from 'tap'
import { createFlow } from '../../lib/terminal/flow.js'

const limits = { keptBytes: 100, windowBytes: 400, batchBytes: 64 }

/** Takes all there is. */
function takeAll(flow: ReturnType<typeof createFlow>): string {
  const texts: string[] = []
  for (let text = flow.take(); text !== ''; text = flow.take()) texts.push(text)
  return texts.join('')
}

t.test('what is printed is taken once, in order, in pieces of a size', async t => {
  const flow = createFlow(limits)
  t.equal(flow.take(), '')
  flow.push('a'.repeat(50), true)
  t.equal(flow.take(), 'a'.repeat(50))
  for (let i = 0; i < 3; i++) flow.push('b'.repeat(40), true)
  t.equal(flow.sent, 50)
  t.equal(takeAll(flow), 'b'.repeat(120))
  t.equal(flow.sent, 170)
  t.equal(flow.take(), '')
  flow.push('', true)
  t.equal(flow.take(), '')
})

t.test('it is full while more than the window is not acknowledged', async t => {
  const flow = createFlow(limits)
  flow.push('x'.repeat(400), true)
  t.equal(flow.isFull, false)
  flow.push('y', true)
  t.equal(flow.isFull, true)
  takeAll(flow)
  t.equal(flow.isFull, true, 'sent is not acknowledged')
  t.equal(flow.ack(1), 'taken')
  t.equal(flow.isFull, false)
  t.equal(flow.ack(0), 'taken', 'less than before means nothing')
  t.equal(flow.isFull, false)
  t.equal(flow.ack(402), 'ahead')
  t.equal(flow.ack(401), 'taken')
})

t.test('a client that comes again goes on where its last ack stood, or where it says', async t => {
  const flow = createFlow(limits)
  flow.push('0123456789', true)
  takeAll(flow)
  flow.ack(4)
  t.equal(flow.rewind(), 4)
  t.equal(takeAll(flow), '456789')
  t.equal(flow.rewind(0), 0, 'what is acknowledged is kept for a while')
  t.equal(takeAll(flow), '0123456789')
  t.equal(flow.rewind(7), 7)
  t.equal(takeAll(flow), '789')
  t.equal(flow.rewind(), 7, 'having it is acknowledging it')
  t.equal(flow.rewind(1000), 10, 'as near as possible')
  flow.push('ab', true)
  t.equal(takeAll(flow), 'ab')
})

t.test('while nobody is there the last so many bytes are kept, and no more', async t => {
  const flow = createFlow(limits)
  flow.push('seen', true)
  takeAll(flow)
  flow.ack(4)
  for (let i = 0; i < 50; i++) flow.push(`line ${String(i).padStart(4, '0')}\n`, false)
  t.equal(flow.isFull, false)
  t.equal(flow.rewind(), 4 + 500 - 100)
  const kept = takeAll(flow)
  t.equal(kept.length, 100)
  t.match(kept, /^line 0040\n[^]*line 0049\n$/)
  flow.push('more', true)
  t.equal(takeAll(flow), 'more')

  const large = createFlow(limits)
  large.push('z'.repeat(1000), false)
  t.equal(large.rewind(), 900)
  t.equal(takeAll(large).length, 100)
})

t.test('what nobody has acknowledged is kept while somebody is there, and what is acknowledged goes', async t => {
  const flow = createFlow(limits)
  for (let i = 0; i < 40; i++) {
    flow.push('0123456789', true)
    flow.take()
  }
  t.equal(flow.rewind(), 0)
  t.equal(takeAll(flow).length, 400)
  flow.ack(400)
  for (let i = 0; i < 1000; i++) {
    flow.push('x'.repeat(4096), true)
    flow.ack(flow.sent + takeAll(flow).length)
  }
  const offset = flow.rewind(0)
  t.ok(flow.rewind(0) > 400 + 1000 * 4096 - 100 - 3 * 4096, `only the last is there, from ${offset} on`)
})

t.test('a position within a character is the beginning of that character', async t => {
  for (let position = 0; position <= 13; position++) {
    const flow = createFlow(limits)
    flow.push('aé€😀b', true)
    flow.push('cd', true)
    takeAll(flow)
    const offset = flow.rewind(position)
    const text = takeAll(flow)
    t.equal(offset + Buffer.byteLength(text), 13)
    t.ok('aé€😀bcd'.endsWith(text) && offset <= position, `${position}: "${text}" from ${offset}`)
  }
  const flow = createFlow(limits)
  for (let i = 0; i < 100; i++) flow.push('€', false)
  const offset = flow.rewind()
  t.equal(takeAll(flow), '€'.repeat((300 - offset) / 3), 'also where it is cut because it is too much')
})

t.test('a program that prints byte by byte costs little', async t => {
  const flow = createFlow()
  // Where each byte cost as much as what is held, this would not end while the test may run.
  for (let i = 0; i < 500_000; i++) {
    flow.push('x', true)
    if (i % 3 === 0) flow.ack(flow.sent + flow.take().length)
  }
  t.equal(flow.rewind(500_000), 500_000)
})
