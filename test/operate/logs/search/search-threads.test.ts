import t from 'tap'
import { EventEmitter, once } from 'node:events'
import { closeSync, openSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createHands,
  createSearchGate,
  createSearchThreads,
  type Found,
  type SearchThread
} from '../../../../lib/operate/logs/search/search-threads.js'
import { compilePattern } from '../../../../lib/operate/logs/search/pattern.js'

t.test('finds the hits and can be used for the next search', async t => {
  const path = join(t.testdir({}), 'app.log')
  writeFileSync(path, 'one\ntwo needle\nthree\nneedle four\n')
  const fd = openSync(path, 'r')
  const threads = createSearchThreads()
  t.teardown(async () => {
    await threads.close()
    closeSync(fd)
  })
  const size = statSync(path).size
  for (const [text, expected] of [
    ['needle', [4, 21]],
    ['three', [15]],
    ['nowhere', []]
  ] as const) {
    const events = new EventEmitter()
    const hits: number[] = []
    const pattern = compilePattern({ q: text, isRegex: false, ignoresCase: false })
    const plan = { fd, pattern, context: 0, maxHits: 100, isNewestFirst: false, level: undefined }
    const thread = threads.take(plan, {
      found(found: Found) {
        hits.push(...found.hits.map(({ offset }) => offset))
        thread.sent(found)
        if (found.isEnd) events.emit('end')
      },
      error: error => events.emit('error', error)
    })
    thread.search({ index: 0, from: 0, to: size, size })
    await once(events, 'end')
    t.same(hits, expected, text)
    t.equal(thread.runs, 0)
    t.ok(thread.signs > 0, 'it has reported progress')
    await thread.release()
  }
})

/** Threads that end a run when the test tells them to. */
function stage({ share = 2, stallMs = 60_000 } = {}) {
  const threads: Array<{ -readonly [K in keyof SearchThread]: SearchThread[K] } & { isReleased: boolean }> = []
  const given = { share }
  const hands = createHands({
    take() {
      const thread = {
        runs: 0,
        signs: 0,
        isReleased: false,
        search: () => void thread.runs++,
        sent: () => {},
        release: async () => {
          thread.isReleased = true
        }
      }
      threads.push(thread)
      return thread
    },
    share: () => given.share,
    stallMs
  })
  const give = (isLarge = true): number => {
    const thread = hands.free({ isLarge })
    thread?.search({ index: 0, from: 0, to: 1, size: 1 })
    return threads.indexOf(thread as (typeof threads)[number])
  }
  return { hands, threads, given, give }
}

t.test('gives each thread a run, then a second one, and no more', async t => {
  const { give, threads } = stage()
  t.same([give(), give(), give(), give(), give()], [0, 1, 0, 1, -1])
  for (const thread of threads) thread.runs--
  threads[1]!.runs--
  t.equal(give(), 1, 'an idle thread comes first')
})

t.test('uses one thread for a small range', async t => {
  const { give } = stage()
  t.same([give(false), give(false), give(false)], [0, 0, -1])
})

t.test('releases a thread after its runs if others search too, and takes one again when they have ended', async t => {
  const { give, given, threads, hands } = stage()
  t.same([give(), give(), give(), give()], [0, 1, 0, 1])
  given.share = 1
  threads[1]!.runs--
  t.equal(give(), -1, 'it gets no more runs')
  t.notOk(threads[1]?.isReleased, 'it finishes its runs')
  threads[1]!.runs--
  t.equal(give(), -1)
  t.ok(threads[1]?.isReleased)
  threads[0]!.runs--
  t.equal(give(), 0)
  given.share = 2
  t.equal(give(), 2)
  await hands.release()
  t.ok(threads.every(({ isReleased }) => isReleased))
})

t.test('reports a thread without progress as stalled, but not before it has started', async t => {
  const { give, threads, hands } = stage({ stallMs: -1 })
  give()
  t.notOk(hands.isStalled(), 'it may be starting')
  threads[0]!.signs++
  t.notOk(hands.isStalled())
  await new Promise(resolve => setTimeout(resolve, 5))
  t.ok(hands.isStalled())
  threads[0]!.signs++
  t.notOk(hands.isStalled())
  threads[0]!.runs = 0
  t.notOk(hands.isStalled(), 'without work no progress is expected')
})

const never = new AbortController().signal

t.test('runs and queues a limited number of searches, and refuses the next one with a time to wait', async t => {
  const gate = createSearchGate({ places: 1, perCaller: 2, maxWaiting: 1 })
  const leave = await gate.enter('a', never)
  t.notOk(gate.isWanted())
  const waiting = gate.enter('b', never)
  await t.rejects(gate.enter('c', never), { kind: 'too_many', code: 'too_many_searches', retryAfterSeconds: 5 })
  t.ok(gate.isWanted())
  leave()
  const leaveToo = await waiting
  t.notOk(gate.isWanted())
  leaveToo()
})

t.test('one caller has a part of the places, and waits by itself for more', async t => {
  const gate = createSearchGate({ places: 3, perCaller: 2, maxWaiting: 2 })
  const first = await gate.enter('a', never)
  await gate.enter('a', never)
  const gone = new AbortController()
  const third = gate.enter('a', gone.signal)
  const fourth = gate.enter('a', never)
  await t.rejects(gate.enter('a', never), { code: 'too_many_searches' })
  t.notOk(gate.isWanted(), 'nobody else waits')
  const other = await gate.enter('b', never)
  gone.abort(new Error('has left'))
  await t.rejects(third, { message: 'has left' })
  first()
  other()
  await fourth
  await gate.enter('b', never)
})
