import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createSharedLooks } from '../../../lib/logs/tail/shared-looks.js'

t.test('gives one result to callers at the same time, and another to later ones', async t => {
  const looks = createSharedLooks()
  let count = 0
  const look = async (): Promise<number> => {
    const number = ++count
    await sleep(5)
    return number
  }
  t.same(await Promise.all([looks('a', look), looks('a', look), looks('b', look)]), [1, 1, 2])
  t.equal(await looks('a', look), 3, 'earlier results are not kept')
})

t.test('gives a failure to all callers, and does not keep it', async t => {
  const looks = createSharedLooks()
  const failing = async (): Promise<never> => {
    throw new Error('closed')
  }
  const results = await Promise.allSettled([looks('a', failing), looks('a', failing)])
  t.same(
    results.map(({ status }) => status),
    ['rejected', 'rejected']
  )
  t.equal(await looks('a', async () => 1), 1)
})
