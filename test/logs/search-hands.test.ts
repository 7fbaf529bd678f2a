import t from 'tap'
import { createHands } from '../../lib/logs/search-hands.js'
import type { SearchThread } from '../../lib/logs/search-threads.js'

/** Threads that end a run when they are told to. */
function stage({ share = 2, stallMs = 60_000 } = {}) {
  const threads: Array<{ -readonly [K in keyof SearchThread]: SearchThread[K] } & { isReleased: boolean }> = []
  const given = { share }
  const hands = createHands({
    take() {
      const thread = {
        runs: 0, signs: 0, isReleased: false,
        search: () => void thread.runs++,
        sent: () => {},
        release: async () => { thread.isReleased = true }
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

t.test('each gets a run, then the next one, and no more', async t => {
  const { give, threads } = stage()
  t.same([give(), give(), give(), give(), give()], [0, 1, 0, 1, -1])
  for (const thread of threads) thread.runs--
  threads[1]!.runs--
  t.equal(give(), 1, 'one that has nothing to do goes first')
})

t.test('what is small is searched by one', async t => {
  const { give } = stage()
  t.same([give(false), give(false), give(false)], [0, 0, -1])
})

t.test('when others search too, one is let go at the end of its runs; and taken again when they have ended', async t => {
  const { give, given, threads, hands } = stage()
  t.same([give(), give(), give(), give()], [0, 1, 0, 1])
  given.share = 1
  threads[1]!.runs--
  t.equal(give(), -1, 'it is given nothing more')
  t.notOk(threads[1]?.isReleased, 'it ends what it has')
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

t.test('one that shows no sign of life is stalled, but not before it has begun', async t => {
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
  t.notOk(hands.isStalled(), 'without work there is nothing to show')
})
