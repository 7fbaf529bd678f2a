import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { FrameTooLong, readFrame, sendFrame } from '../../lib/proc/helper-wire.js'

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
