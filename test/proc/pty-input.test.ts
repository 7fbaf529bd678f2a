import { spawnSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createPtyInput } from '../../lib/proc/pty-input.js'

const skip = process.platform === 'win32' && 'there are no named pipes'

/** Both ends of a pipe that does not block, like the descriptor of a terminal. */
function pipe(t: Test): { reader: number; writer: number } {
  const path = join(t.testdir(), 'pipe')
  spawnSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
  t.teardown(() => {
    closeSync(reader)
    closeSync(writer)
  })
  return { reader, writer }
}

function readSome(fd: number): string {
  const bytes = Buffer.alloc(1024 * 1024)
  try {
    return bytes.toString('utf8', 0, readSync(fd, bytes))
  } catch {
    return ''
  }
}

t.test('queues input in order, and takes nothing above the limit', { skip }, async t => {
  const { reader, writer } = pipe(t)
  const input = createPtyInput({ fd: writer, stream: { destroyed: false } })
  t.ok(input.write('first '))
  t.equal(readSome(reader), 'first ', 'written at once')
  const pieces = Array.from({ length: 10 }, (_, index) => String(index).repeat(100_000))
  for (const piece of pieces) t.ok(input.write(piece))
  t.notOk(input.write('x'.repeat(200_000)), 'more than a megabyte would be queued')
  let text = ''
  while (text.length < 1_000_000) {
    text += readSome(reader)
    await sleep(5)
  }
  t.ok(text === pieces.join(''))
  input.stop()
})

t.test('writes nothing after the stream is closed: the descriptor may be another file then', { skip }, async t => {
  const { reader, writer } = pipe(t)
  const stream = { destroyed: false }
  const input = createPtyInput({ fd: writer, stream })
  stream.destroyed = true
  input.write('late')
  t.equal(readSome(reader), '')
})
