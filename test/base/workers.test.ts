import t, { type Test } from 'tap'
import { spawnSync } from 'node:child_process'
import {
  createWorkerPool,
  type PoolOptions,
  startThread,
  ThreadDied,
  type ThreadOptions,
  type WorkerPool,
  type WorkerThread
} from '../../lib/base/workers.js'
import type { TestAnswer, TestRequest } from '../support/answering-worker.js'
import { defaultWithinMs, until } from '../support/until.js'

/** Counts the worker threads of this process. */
const seen = { started: 0, living: 0 }
process.on('worker', worker => {
  seen.started++
  seen.living++
  worker.once('exit', () => void seen.living--)
})

function stage(t: Test, options: Omit<PoolOptions, 'module'> = {}) {
  Object.assign(seen, { started: 0, living: 0 })
  const module = new URL('../support/answering-worker.js', import.meta.url)
  const pool: WorkerPool<TestRequest, TestAnswer, number> = createWorkerPool({ module, ...options })
  t.teardown(() => pool.close({ waitForBusy: true }))
  const ask = (request: TestRequest, more: { signal?: AbortSignal; isFirst?: boolean } = {}) =>
    pool.use(thread => thread.ask(request), more)
  return { pool, ask }
}

t.test('shares the threads between many uses, in the order of the calls', async t => {
  const { ask } = stage(t, { maxBusy: 2 })
  const threads = await Promise.all(Array.from({ length: 12 }, () => ask({ kind: 'wait', ms: 5 })))
  t.equal(new Set(threads).size, 2)
  t.equal(seen.started, 2)
})

t.test('an urgent call goes to the front of the queue', async t => {
  const { ask } = stage(t, { maxBusy: 1 })
  const order: string[] = []
  const note = (name: string, isFirst: boolean) => ask({ kind: 'thread' }, { isFirst }).then(() => order.push(name))
  await Promise.all([note('a', false), note('b', false), note('c', false), note('urgent', true)])
  t.strictSame(order, ['a', 'urgent', 'b', 'c'])
})

t.test('an abort ends only the wait', async t => {
  const { ask } = stage(t, { maxBusy: 1 })
  const controller = new AbortController()
  const { signal } = controller
  const [running, waiting] = [ask({ kind: 'wait', ms: 50 }, { signal }), ask({ kind: 'thread' }, { signal })]
  await new Promise(resolve => setTimeout(resolve, 5))
  controller.abort(new Error('not any more'))
  await t.rejects(waiting, { message: 'not any more' })
  t.type(await running, 'number')
})

t.test('replaces a thread that died', async t => {
  const { ask } = stage(t, { maxBusy: 1 })
  const [first, dead, later] = await Promise.allSettled([
    ask({ kind: 'thread' }),
    ask({ kind: 'exit' }),
    ask({ kind: 'thread' })
  ])
  t.equal(first.status, 'fulfilled')
  t.ok(dead.status === 'rejected' && dead.reason instanceof ThreadDied)
  t.equal(later.status, 'fulfilled')
  t.strictSame(seen, { started: 2, living: 1 })
})

t.test('a thread ends after a result that says so, and the next call gets another', async t => {
  const { pool } = stage(t, { maxBusy: 1 })
  const use = (endsAfter: boolean) => pool.use(thread => thread.ask({ kind: 'thread' }), { endsAfter: () => endsAfter })
  const [first, second, third] = [await use(false), await use(true), await use(false)]
  t.equal(first, second)
  t.not(second, third)
  await until(() => seen.living === 1)
})

t.test('an idle thread ends after its time; a busy one does not', async t => {
  const { ask } = stage(t, { idleMs: 20 })
  await ask({ kind: 'wait', ms: 100 })
  t.equal(seen.living, 1)
  await until(() => seen.living === 0)
})

t.test('keeps a limited number of idle threads', async t => {
  const { pool } = stage(t, { maxIdle: 1 })
  const [first, second] = [pool.take(), pool.take()]
  await Promise.all([first, second].map(thread => thread.ask({ kind: 'thread' })))
  await pool.release(first)
  await pool.release(second)
  t.strictSame([first.isOpen, second.isOpen], [true, false])
  t.equal(pool.take(), first)
  await pool.release(first)
})

t.test('close ends idle threads now and busy ones when they are released, and no new work begins', async t => {
  const { pool, ask } = stage(t, { maxBusy: 2 })
  const busy = pool.take()
  await Promise.all([ask({ kind: 'thread' }), busy.ask({ kind: 'thread' })])
  await pool.close()
  t.equal(seen.living, 1)
  t.equal(await busy.ask({ kind: 'count', to: 1 }), 1)
  await pool.release(busy)
  t.equal(seen.living, 0)
  await t.rejects(ask({ kind: 'thread' }), { message: 'The thread pool is closed' })
})

t.test('close can wait for busy threads, and queued calls reject', async t => {
  const { pool, ask } = stage(t, { maxBusy: 1 })
  const [running, waiting] = [ask({ kind: 'wait', ms: 50 }), ask({ kind: 'thread' })]
  const rejected = t.rejects(waiting, { message: 'The thread pool is closed' })
  await new Promise(resolve => setImmediate(resolve))
  await pool.close({ waitForBusy: true })
  t.equal(seen.living, 0)
  t.type(await running, 'number')
  await rejected
})

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
    import { startThread } from '${new URL('../../lib/base/workers.js', import.meta.url)}'
    const thread = startThread({ module: new URL('${module}') })
    thread.post({ kind: 'wait', ms: 600000 })
    console.log(await thread.ask({ kind: 'count', to: 2 }))`
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    timeout: defaultWithinMs
  })
  t.strictSame([String(stdout), status], ['2\n', 0])
})
