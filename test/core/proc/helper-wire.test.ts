import t from 'tap'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { Refusal } from '../../../lib/base/errors.js'
import {
  accept,
  FrameTooLong,
  matching,
  notAccepted,
  packAnswer,
  packFailure,
  readAnswer,
  readFrame,
  sendFrame
} from '../../../lib/core/proc/helper-wire.js'
import { changedText, createRandom } from '../../support/random.js'
import { firstSeed } from '../../support/thorough.js'

t.test('a frame arrives whole, however it is cut', async t => {
  const sent = new PassThrough()
  sendFrame(sent, Buffer.from('a longer text'))
  sendFrame(sent, Buffer.from('the next one'))
  sent.end()
  const bytes = Buffer.concat(await sent.toArray())
  for (const step of [1, 3, 5, bytes.length]) {
    const cut = new PassThrough()
    const reading = readFrame(cut, 100)
    for (let at = 0; at < bytes.length; at += step) {
      cut.write(bytes.subarray(at, at + step))
      await new Promise(resolve => setImmediate(resolve))
    }
    t.equal((await reading)?.toString(), 'a longer text', `in pieces of ${step}`)
  }
})

t.test('a frame that is too long is refused at its head', async t => {
  const hostile = new PassThrough()
  const reading = readFrame(hostile, 10)
  hostile.write(Buffer.from([0xff, 0xff, 0xff, 0xff]))
  const error: unknown = await reading.catch((thrown: unknown) => thrown)
  t.ok(error instanceof FrameTooLong)
})

t.test('an end before the frame gives null', async t => {
  const ended = new PassThrough()
  const reading = readFrame(ended, 10)
  ended.write(Buffer.from([0, 0, 0, 9, 1]))
  ended.destroy()
  await once(ended, 'close')
  t.equal(await reading, null)
})

const text = (value: unknown): string => {
  if (typeof value === 'string') return value
  throw new Error('"answer" is no string')
}
const read = (sent: string | Buffer): string => readAnswer(Buffer.from(sent), 'shop', text)

t.test('answers and errors cross the boundary unchanged', async t => {
  t.equal(read(packAnswer('fine')), 'fine')
  t.equal(Buffer.from(read(packAnswer(new Uint8Array([1, 2, 255]))), 'base64').toString('hex'), '0102ff')
  t.throws(() => read(packFailure(new Refusal('conflict', 'no_way', 'It cannot be done', { field: 'job' }))), {
    kind: 'conflict',
    code: 'no_way',
    field: 'job',
    message: 'It cannot be done'
  })
  const system = Object.assign(new Error('ENOSPC: no space left on device, write'), {
    code: 'ENOSPC',
    syscall: 'write'
  })
  t.throws(() => read(packFailure(system)), { code: 'ENOSPC', syscall: 'write', message: system.message })
})

t.test('everything else is one refusal that names the user', async t => {
  const failed = (error: unknown): string => JSON.stringify({ kind: 'failed', error })
  const refusal = { kind: 'conflict', code: 'no_way', message: 'x' }
  for (const sent of [
    '',
    '{',
    'null',
    '[]',
    '7',
    '"answer"',
    '{"kind":"other"}',
    '{"kind":"answer"}',
    '{"kind":"answer","answer":7}',
    '{"kind":"failed"}',
    '{"__proto__":{"kind":"answer","answer":"x"}}',
    failed(null),
    failed({ kind: 'refusal' }),
    failed({ kind: 'refusal', refusal: { ...refusal, kind: 'unauthorized' } }),
    failed({ kind: 'refusal', refusal: { ...refusal, kind: 'constructor' } }),
    failed({ kind: 'refusal', refusal: { ...refusal, code: '../x' } }),
    failed({ kind: 'refusal', refusal: { ...refusal, message: { toString: 'x' } } }),
    failed({ kind: 'error', message: 'x', code: 'a\nb' }),
    failed({ kind: 'error', message: 7 }),
    '['.repeat(1_000_000),
    `{"kind":"answer","answer":[${'{},'.repeat(4_000_001)}{}]}`
  ]) {
    t.throws(() => read(sent), { kind: 'unavailable', code: 'helper_failed', message: /"shop"/ }, sent.slice(0, 80))
  }
})

t.test('texts of an error forge no line of a log', async t => {
  const stack = 'Error: x\nsvc: everything is fine\n    at run (a.js:1:2)\n\u001b[2Jno'
  const sent = JSON.stringify({
    kind: 'failed',
    error: { kind: 'error', message: 'a\nb\u001b[2J'.repeat(5000), stack }
  })
  try {
    read(sent)
    t.fail('it throws')
  } catch (error) {
    const { message, stack } = error as Error
    t.match(message, /^a\\nb\\u001b/)
    t.ok(message.length < 200_000)
    t.equal(stack, `${message}\n    at run (a.js:1:2)`)
  }
})

t.test('the error of a reader becomes the refusal', async t => {
  t.equal(
    accept('shop', () => 1),
    1
  )
  const refuse = (): never => {
    throw new Error('no\nway')
  }
  t.throws(() => accept('shop', refuse), { code: 'helper_failed', message: /\(no\\nway\)/ })
  t.equal(notAccepted('shop', 'x').code, 'helper_failed')
  t.equal(matching(/^a+$/)('aa', 'field'), 'aa')
  t.throws(() => matching(/^a+$/)('b', 'field'), { code: 'invalid_field' })
})

t.test('a changed answer is an answer of its form, an error, or refused', t => {
  const random = createRandom(firstSeed)
  const refusal = new Refusal('conflict', 'no_way', 'It cannot be done', { field: 'job' })
  const right = [packAnswer('fine'), packFailure(refusal), packFailure(Object.assign(new Error('x'), { code: 'EIO' }))]
  for (let n = 0; n < 1000; n++) {
    let sent = random.oneOf(right).toString()
    for (let changes = 1 + random.below(3); changes > 0; changes--) sent = changedText(random, sent)
    const what = `seed ${firstSeed}, ${n}: ${JSON.stringify(sent)}`
    try {
      if (typeof read(sent) !== 'string') t.fail(what)
    } catch (error) {
      const { message, stack, code } = error as Error & { code?: string }
      const isOneLine = !/[\n\u001b]/.test(message)
      if (
        !isOneLine ||
        error instanceof TypeError ||
        !(stack ?? '').startsWith(code === 'helper_failed' ? 'Refusal' : '')
      )
        t.fail(`${what}: ${stack}`)
    }
  }
  t.pass('all were read')
  t.end()
})
