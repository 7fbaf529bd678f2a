import t from 'tap'
import { createFeed } from '../../../www/terminal/feed.js'

/** A clock that advances with each written character. */
function stage(budgetMs: number) {
  let nowMs = 0
  const written: string[] = []
  const feed = createFeed({
    write: text => {
      written.push(text)
      nowMs += text.length / 1024
    },
    now: () => nowMs,
    budgetMs
  })
  return { feed, written }
}

t.test('writes texts in order and calls back after the last character of each', async t => {
  const { feed, written } = stage(1000)
  const told: string[] = []
  feed.push('a'.repeat(20_000), () => told.push(`a after ${written.join('').length}`))
  feed.push('b', () => told.push(`b after ${written.join('').length}`))
  feed.push('c')
  feed.run()
  t.equal(written.join(''), `${'a'.repeat(20_000)}bc`)
  t.same(told, ['a after 20000', 'b after 20001'])
  t.ok(feed.isEmpty)
})

t.test('a run stops at its time limit, and the next one continues there', async t => {
  const { feed, written } = stage(16)
  feed.push('x'.repeat(100_000))
  feed.run()
  t.equal(written.join('').length, 16 * 1024)
  t.notOk(feed.isEmpty)
  let runs = 1
  for (; !feed.isEmpty; runs++) feed.run()
  t.equal(written.join('').length, 100_000)
  t.equal(runs, 7)
})

t.test('writes at least one slice to a slow screen', async t => {
  const { feed, written } = stage(0)
  feed.push('x'.repeat(10_000))
  feed.run()
  t.equal(written.join('').length, 8192)
})

t.test('does not call back after it is cleared', async t => {
  const { feed, written } = stage(1)
  feed.push('x', () => t.fail('told'))
  feed.clear()
  feed.run()
  t.same(written, [])
  t.ok(feed.isEmpty)
})
