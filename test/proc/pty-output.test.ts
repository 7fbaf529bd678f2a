import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { readPty, type PtyStream } from '../../lib/proc/pty-output.js'

/** A terminal with `held` in its stream and `rest` in the kernel, and the output that is passed on. */
function stageOf(t: Test, { held, rest }: { held: Buffer; rest: Buffer }) {
  const path = join(t.testdir({}), 'rest')
  writeFileSync(path, rest)
  const fd = openSync(path, 'r')
  t.teardown(() => closeSync(fd))
  const stream = new PassThrough()
  const output = readPty({ fd, stream: stream as unknown as PtyStream })
  let text = ''
  output.onData(more => (text += more))
  output.pause()
  stream.write(held)
  return { stream, output, text: () => text }
}

t.test('at the end, passes on the data of the stream before that of the kernel', async t => {
  const { stream, output, text } = stageOf(t, { held: Buffer.from('first '), rest: Buffer.from('second') })
  stream.destroy()
  t.strictSame([text(), stream.destroyed], ['', false], 'a pause delays the end')
  output.resume()
  t.strictSame([text(), stream.destroyed], ['first second', true])
})

t.test('keeps a character that is split between the stream and the kernel', async t => {
  const bytes = Buffer.from('€')
  for (let at = 1; at < bytes.length; at++) {
    const { stream, output, text } = stageOf(t, { held: bytes.subarray(0, at), rest: bytes.subarray(at) })
    stream.destroy()
    output.resume()
    t.equal(text(), '€', `after ${at} bytes`)
  }
})

t.test('does not read output that was given up', async t => {
  const { stream, output, text } = stageOf(t, { held: Buffer.from('first '), rest: Buffer.from('second') })
  stream.destroy()
  output.giveUp()
  t.strictSame([text(), stream.destroyed], ['', true])
})
