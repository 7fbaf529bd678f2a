import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createSharedLooks } from '../../lib/logs/shared-looks.js'

t.test('those who ask at the same time are given one result, later ones another', async t => {
  const looks = createSharedLooks()
  let count = 0
  const look = async (): Promise<number> => {
    const number = ++count
    await sleep(5)
    return number
  }
  t.same(await Promise.all([looks('a', look), looks('a', look), looks('b', look)]), [1, 1, 2])
  t.equal(await looks('a', look), 3, 'what was found before is not kept')
})

t.test('a failure is for all who asked, and not kept', async t => {
  const looks = createSharedLooks()
  const failing = async (): Promise<never> => {
    throw new Error('closed')
  }
  const results = await Promise.allSettled([looks('a', failing), looks('a', failing)])
  t.same(results.map(({ status }) => status), ['rejected', 'rejected'])
  t.equal(await looks('a', async () => 1), 1)
})
