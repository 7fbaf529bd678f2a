import t from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { createQueue, type QueueEntry } from '../../lib/deploy/queue.js'

/** Creates an entry that records its start and runs until it is told to end. */
function entry(key: string, id: string, begun: string[]): QueueEntry & { end(): void } {
  let end = (): void => {}
  const over = new Promise<void>(resolve => (end = resolve))
  return {
    key,
    id,
    end: () => end(),
    drop: () => over,
    run() {
      begun.push(id)
      return over
    }
  }
}

t.test('runs one entry at a time per key, in order of arrival', async t => {
  const begun: string[] = []
  const queue = createQueue()
  const a = entry('shop', 'a', begun)
  const b = entry('shop', 'b', begun)
  const c = entry('shop', 'c', begun)
  t.equal(queue.add(a), 0, 'nothing is ahead of the first')
  t.equal(queue.add(b), 1)
  t.equal(queue.add(c), 2)
  t.strictSame(begun, ['a'])
  a.end()
  await turn()
  t.strictSame(begun, ['a', 'b'])
  t.equal(queue.count('shop'), 2)
  b.end()
  await turn()
  c.end()
  await turn()
  t.strictSame(begun, ['a', 'b', 'c'])
  t.equal(queue.count('shop'), 0)
})

t.test('runs different keys in parallel', async t => {
  const begun: string[] = []
  const queue = createQueue()
  queue.add(entry('shop', 'a', begun))
  queue.add(entry('blog', 'b', begun))
  t.strictSame(begun, ['a', 'b'])
})

t.test('takes back waiting entries, but not running ones', async t => {
  const begun: string[] = []
  const queue = createQueue()
  const a = entry('shop', 'a', begun)
  queue.add(a)
  queue.add(entry('shop', 'b', begun))
  queue.add(entry('shop', 'c', begun))
  t.equal(queue.takeBack('b')?.id, 'b')
  t.equal(queue.takeBack('b'), undefined)
  t.equal(queue.takeBack('a'), undefined)
  t.strictSame(
    queue.takeBackAll().map(({ id }) => id),
    ['c']
  )
  a.end()
  await turn()
  t.strictSame(begun, ['a'])
  queue.add(entry('shop', 'd', begun))
  t.strictSame(begun, ['a', 'd'], 'an emptied queue starts again')
})
