import t from 'tap'
import { abreast } from '../../lib/target/abreast.js'

t.test('three at a time, each once', async t => {
  const seen: number[] = []
  let running = 0
  let most = 0
  await abreast(Array.from({ length: 20 }, (_, i) => i), async item => {
    most = Math.max(most, ++running)
    seen.push(item)
    await new Promise(setImmediate)
    running--
  })
  t.strictSame(seen, Array.from({ length: 20 }, (_, i) => i))
  t.equal(most, 3)
  await abreast([], async () => void t.fail('nothing is to be done'))
})

t.test('after a failure no more are begun', async t => {
  const seen: number[] = []
  const work = async (item: number): Promise<void> => {
    seen.push(item)
    await new Promise(setImmediate)
    if (item === 1) throw new Error('the second')
  }
  await t.rejects(abreast(Array.from({ length: 20 }, (_, i) => i), work), /the second/)
  await new Promise(setImmediate)
  t.ok(seen.length <= 6, `${seen.length} were begun`)
})
