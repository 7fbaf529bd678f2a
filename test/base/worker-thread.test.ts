import t, { type Test } from 'tap'
import { spawnSync } from 'node:child_process'
import { startThread, ThreadDied, type ThreadOptions, type WorkerThread } from '../../lib/base/worker-thread.js'
import type { TestAnswer, TestRequest } from '../support/answering-worker.js'

const module = new URL('../support/answering-worker.js', import.meta.url)

function start(t: Test, options: Partial<ThreadOptions> = {}): WorkerThread<TestRequest, TestAnswer, number> {
  const thread = startThread<TestRequest, TestAnswer, number>({ module, ...options })
  t.teardown(() => thread.terminate())
  return thread
}

t.test('each request gets its own answer, in any order', async t => {
  const thread = start(t)
  const order: string[] = []
  await Promise.all([
    thread.ask({ kind: 'wait', ms: 50 }).then(() => order.push('slow')),
    thread.ask({ kind: 'count', to: 0 }).then(() => order.push('fast'))
  ])
  t.strictSame(order, ['fast', 'slow'])
})

t.test('parts arrive in their order, before the answer', async t => {
  const parts: number[] = []
  t.equal(await start(t).ask({ kind: 'count', to: 3 }, { onPart: part => parts.push(part) }), 3)
  t.strictSame(parts, [1, 2, 3])
})

t.test('transfers memory both ways instead of copying it', async t => {
  const bytes = Uint8Array.of(1, 2, 3)
  const doubled = await start(t).ask({ kind: 'double', bytes }, { transfer: [bytes.buffer] })
  t.strictSame(doubled, Uint8Array.of(2, 4, 6))
  t.equal(bytes.length, 0)
})

t.test('errors keep their class and fields, and the thread continues', async t => {
  const thread = start(t)
  await t.rejects(thread.ask({ kind: 'refuse' }), { kind: 'conflict', code: 'in_the_way', field: 'path' })
  await t.rejects(thread.ask({ kind: 'fail' }), { message: 'EIO: i/o error, read', code: 'EIO', syscall: 'read' })
  await t.rejects(thread.ask({ kind: 'answer a function' }), /could not be cloned/)
  await t.rejects(thread.ask({ kind: (() => {}) as unknown as 'fail' }), /could not be cloned/)
  t.equal(thread.isOpen, true)
  t.equal(await thread.ask({ kind: 'count', to: 1 }), 1)
})

t.test('a thread that dies rejects its open requests and all later ones', async t => {
  const thread = start(t)
  const open = [thread.ask({ kind: 'wait', ms: 60_000 }), thread.ask({ kind: 'exit' })]
  for (const each of open) t.ok((await each.catch((error: unknown) => error)) instanceof ThreadDied)
  t.equal(thread.isOpen, false)
  await t.rejects(thread.ask({ kind: 'thread' }), {
    message: 'The thread "answering-worker" ended before it answered'
  })
  await thread.close()
})

t.test('a thread that exceeds its memory limit dies, and the error says so', async t => {
  const thread = start(t, { resourceLimits: { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 8 } })
  await t.rejects(thread.ask({ kind: 'fill memory' }), {
    message: /ended before it answered: .*memory/,
    cause: { code: 'ERR_WORKER_OUT_OF_MEMORY' }
  })
})

t.test('a thread dies of an error in a request that has no answer', async t => {
  const thread = start(t)
  thread.post({ kind: 'fail' })
  await t.rejects(thread.ask({ kind: 'wait', ms: 60_000 }), { cause: { message: 'EIO: i/o error, read' } })
})

t.test('close lets the thread answer its open requests, terminate does not', async t => {
  const [closed, terminated] = [start(t), start(t)]
  await terminated.ask({ kind: 'thread' })
  const answered = closed.ask({ kind: 'wait', ms: 50 })
  const rejected = t.rejects(terminated.ask({ kind: 'wait', ms: 60_000 }), { message: /ended before it answered/ })
  const ends = [closed.close(), terminated.terminate()]
  t.strictSame([closed.isOpen, terminated.isOpen], [false, false])
  t.type(await answered, 'number')
  await Promise.all([rejected, ...ends])
})

t.test('keeps the process running only while a request is open', async t => {
  const program = `
    import { startThread } from '${new URL('../../lib/base/worker-thread.js', import.meta.url)}'
    const thread = startThread({ module: new URL('${module}') })
    thread.post({ kind: 'wait', ms: 60000 })
    console.log(await thread.ask({ kind: 'count', to: 2 }))`
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { timeout: 30_000 })
  t.strictSame([String(stdout), status], ['2\n', 0])
})
