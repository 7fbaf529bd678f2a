import t from 'tap'
import { FrameError, isCloseCode, Receiver } from '../../../lib/http/websocket/receiver.js'
import { binary, close, closing, continuation, describeFrame, frame, ping, pong, text } from '../../support/frames.js'
import { caseLimits, cases } from './cases.js'

/** Returns what an endpoint that returns every message would answer, frame by frame, in words. */
function answers(chunks: Buffer[]): string[] {
  const out: string[] = []
  const say = (opcode: number, payload: Buffer): void => void out.push(describeFrame({ opcode, payload }))
  const receiver = new Receiver(
    {
      message: message => (typeof message === 'string' ? say(text, Buffer.from(message)) : say(binary, message)),
      ping: payload => say(pong, payload),
      pong: () => {},
      close: code => say(close, code === 1005 ? Buffer.alloc(0) : closing(code))
    },
    caseLimits
  )
  try {
    // Pushed bytes belong to the receiver, so it gets copies.
    for (const chunk of chunks) receiver.push(Buffer.from(chunk))
  } catch (error) {
    if (!(error instanceof FrameError)) throw error
    say(close, closing(error.closeCode))
  }
  return out
}

for (const { section, what, bytes, out } of cases) {
  t.test(`§${section}: ${what}`, async t => {
    t.same(answers([bytes]), out, 'whole')
    t.same(answers(Array.from(bytes, byte => Buffer.of(byte))), out, 'byte by byte')
    const wrong: number[] = []
    for (let at = 1; at < bytes.length; at++) {
      if (answers([bytes.subarray(0, at), bytes.subarray(at)]).join('\n') !== out.join('\n')) wrong.push(at)
    }
    t.same(wrong, [], 'cut at every byte')
  })
}

t.test('unmasks every alignment, length and rotation of the mask', async t => {
  const receiver = new Receiver(
    { message: message => void got.push(message as Buffer), ping() {}, pong() {}, close() {} },
    {
      maxMessageBytes: 1024,
      maxFragments: 1
    }
  )
  const got: Buffer[] = []
  const wrong: string[] = []
  for (let offset = 0; offset < 8; offset++) {
    for (const length of [0, 1, 2, 3, 4, 5, 7, 63, 64, 65, 66, 67, 68, 127, 300]) {
      const payload = Buffer.from(Array.from({ length }, (_, i) => (i * 7 + offset) & 0xff))
      const bytes = frame({ opcode: binary, payload })
      const memory = Buffer.alloc(bytes.length + offset)
      bytes.copy(memory, offset)
      receiver.push(memory.subarray(offset))
      if (!got.pop()?.equals(payload)) wrong.push(`${length} bytes at ${offset}`)
    }
  }
  t.same(wrong, [])
})

t.test('reports a violation with a stable code and a sentence that names its section', async t => {
  const codeOf = (...frames: Buffer[]): unknown => {
    try {
      new Receiver({ message() {}, ping() {}, pong() {}, close() {} }, caseLimits).push(Buffer.concat(frames))
      return undefined
    } catch (error) {
      return [
        (error as FrameError).code,
        /§/.test((error as Error).message) || (error as FrameError).closeCode === 1009
      ]
    }
  }
  t.same(codeOf(frame({ opcode: text, rsv: 4 })), ['WS_RSV', true])
  t.same(codeOf(frame({ opcode: 3 })), ['WS_OPCODE', true])
  t.same(codeOf(frame({ opcode: text, mask: null })), ['WS_MASK', true])
  t.same(codeOf(frame({ opcode: ping, fin: false })), ['WS_CONTROL_FIN', true])
  t.same(codeOf(frame({ opcode: ping, payload: 'x'.repeat(126) })), ['WS_CONTROL_LENGTH', true])
  t.same(codeOf(frame({ opcode: continuation })), ['WS_CONTINUATION', true])
  t.same(codeOf(frame({ opcode: text, fin: false }), frame({ opcode: text })), ['WS_INTERLEAVED', true])
  t.same(codeOf(frame({ opcode: text, payload: 'a', lengthIn: 16 })), ['WS_LENGTH', true])
  t.same(codeOf(frame({ opcode: close, payload: 'a' })), ['WS_CLOSE_LENGTH', true])
  t.same(codeOf(frame({ opcode: close, payload: closing(1005) })), ['WS_CLOSE_CODE', true])
  t.same(codeOf(frame({ opcode: text, payload: Buffer.of(0xff) })), ['WS_UTF8', true])
  t.same(codeOf(frame({ opcode: text, length: 301 })), ['WS_MESSAGE_SIZE', true])
})

t.test('allocates no memory for a payload that is only announced', async t => {
  const before = process.memoryUsage().arrayBuffers
  const receivers = Array.from({ length: 200 }, () => {
    const receiver = new Receiver({ message() {}, ping() {}, pong() {}, close() {} })
    receiver.push(frame({ opcode: binary, length: 1024 * 1024 }))
    return receiver
  })
  t.equal(receivers.length, 200)
  t.ok(
    process.memoryUsage().arrayBuffers - before < 50 * 1024 * 1024,
    'two hundred payloads of a megabyte were announced'
  )
})

t.test('knows the close codes that may be sent (RFC 6455 §7.4, and the registry of IANA)', async t => {
  const good = Array.from({ length: 70_000 }, (_, code) => code).filter(isCloseCode)
  const runs = good
    .filter(code => !good.includes(code - 1))
    .map(code => [code, good.find(end => end >= code && !isCloseCode(end + 1))])
  t.same(runs, [
    [1000, 1003],
    [1007, 1014],
    [3000, 4999]
  ])
})
