import t from 'tap'
import { createHands } from '../../../lib/logs/search/search-hands.js'
import type { SearchThread } from '../../../lib/logs/search/search-threads.js'

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
