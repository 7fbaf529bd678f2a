import t, { type Test } from 'tap'
import { createWorkerPool, type PoolOptions, type WorkerPool } from '../../lib/base/worker-pool.js'
import { ThreadDied } from '../../lib/base/worker-thread.js'
import type { TestAnswer, TestRequest } from '../support/answering-worker.js'
import { until } from '../support/until.js'

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
