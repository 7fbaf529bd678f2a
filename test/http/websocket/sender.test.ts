import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { createSender } from '../../../lib/http/websocket/sender.js'
import { describeFrame, readFrames } from '../../support/frames.js'

/** The two ends of a connection on loopback. */
async function connected(t: Test): Promise<{ ours: Socket; theirs: Socket }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const theirs = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [ours] = (await once(server, 'connection')) as [Socket]
  for (const socket of [ours, theirs]) socket.on('error', () => {})
  t.teardown(() => {
    ours.destroy()
    theirs.destroy()
    server.close()
  })
  return { ours, theirs }
}

t.test('sends whole, unmasked frames with the shortest possible lengths', async t => {
  const stream = new PassThrough()
  const sender = createSender(stream)
  const lengths = [0, 1, 125, 126, 127, 65535, 65536, 70000]
  void sender.message('Hello')
  for (const length of lengths) void sender.message(Buffer.alloc(length, 0x61))
  void sender.message('aé€😀')
  sender.ping()
  sender.close(1001, 'bye')
  stream.end()
  let bytes = Buffer.alloc(0)
  for await (const chunk of stream) bytes = Buffer.concat([bytes, chunk as Buffer])
  t.equal(bytes.subarray(0, 7).toString('hex'), '810548656c6c6f', 'the example of §5.7')
  const frames: string[] = []
  const rest = readFrames(bytes, frame => void frames.push(describeFrame(frame)))
  t.equal(rest.length, 0)
  t.same(frames, [
    'text Hello',
    ...lengths.map(length => `binary ${'61'.repeat(length)}`),
    'text aé€😀',
    'ping ',
    'close 1001'
  ])
})

t.test('cuts the reason of a close frame between characters, and sends no code for 1005', async t => {
  for (const [code, reason, expected] of [
    [1000, '€'.repeat(50), '€'.repeat(41)],
    [1000, 'x'.repeat(200), 'x'.repeat(123)],
    [1000, `${'x'.repeat(122)}é`, 'x'.repeat(122)],
    [1005, '', null]
  ] as const) {
    const stream = new PassThrough()
    createSender(stream).close(code, reason)
    readFrames(stream.read() as Buffer, ({ payload }) => {
      if (expected === null) t.equal(payload.length, 0)
      else t.equal(payload.subarray(2).toString('utf8'), expected)
    })
  }
})

t.test('waits while the peer does not read, and then answers only the last of many pings', async t => {
  const { ours, theirs } = await connected(t)
  const sender = createSender(ours)
  // More than the buffers of both systems can take.
  const sent = 40
  const messages = Array.from({ length: sent }, () => sender.message(Buffer.alloc(1024 * 1024)))
  const sending = Promise.all(messages)
  let isSent = false
  void sending.then(() => (isSent = true))
  const before = ours.writableLength
  for (let i = 0; i < 100_000; i++) sender.pong(Buffer.from(`ping ${i}`))
  t.equal(ours.writableLength, before, 'a flood of pings takes no memory')
  t.equal(isSent, false)

  const frames: string[] = []
  let bytes = Buffer.alloc(0)
  theirs.on('data', piece => {
    bytes = readFrames(
      Buffer.concat([bytes, piece]),
      frame => void frames.push(frame.opcode === 10 ? frame.payload.toString() : 'message')
    ) as Buffer<ArrayBuffer>
  })
  await sending
  while (frames.length < sent + 1) await once(theirs, 'data')
  t.same(
    frames.filter(one => one !== 'message'),
    ['ping 99999']
  )
})

t.test('releases waiting callers when the connection is gone', async t => {
  const { ours, theirs } = await connected(t)
  const sender = createSender(ours)
  const waiting = Array.from({ length: 40 }, () => sender.message(Buffer.alloc(1024 * 1024)))
  theirs.destroy()
  await Promise.all(waiting)
  await sender.message('nobody hears this')
  t.pass('all of them')
})
