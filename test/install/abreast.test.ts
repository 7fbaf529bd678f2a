import t from 'tap'
import { abreast } from '../../lib/install/abreast.js'

t.test('runs three at a time, and each item once', async t => {
  const seen: number[] = []
  let running = 0
  let most = 0
  await abreast(
    Array.from({ length: 20 }, (_, i) => i),
    async item => {
      most = Math.max(most, ++running)
      seen.push(item)
      await new Promise(setImmediate)
      running--
    }
  )
  t.strictSame(
    seen,
    Array.from({ length: 20 }, (_, i) => i)
  )
  t.equal(most, 3)
  await abreast([], async () => void t.fail('there is nothing to do'))
})

t.test('starts no more work after a failure', async t => {
  const seen: number[] = []
  const work = async (item: number): Promise<void> => {
    seen.push(item)
    await new Promise(setImmediate)
    if (item === 1) throw new Error('the second')
  }
  await t.rejects(
    abreast(
      Array.from({ length: 20 }, (_, i) => i),
      work
    ),
    /the second/
  )
  await new Promise(setImmediate)
  t.ok(seen.length <= 6, `${seen.length} were begun`)
})
