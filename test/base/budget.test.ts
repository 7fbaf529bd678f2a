import t from 'tap'
import { createBudget } from '../../lib/base/budget.js'
import { Refusal } from '../../lib/base/errors.js'

const budgetOf = (total: number, perKey: number) =>
  createBudget({ all: total, each: { caller: perKey }, refuse: over => new Refusal('too_many', over, 'Too much') })

t.test('one key leaves room for the others, and all together have a limit', async t => {
  const budget = budgetOf(10, 6)
  const mine = budget.claim({ caller: 'a' }, 4)
  mine.add(2)
  t.throws(() => mine.add(1), { code: 'caller' })
  t.throws(() => budget.claim({ caller: 'a' }, 1), { code: 'caller' })
  const other = budget.claim({ caller: 'b' }, 4)
  t.throws(() => budget.claim({ caller: 'c' }, 1), { code: 'all' })
  t.strictSame(
    [budget.held(), budget.held('caller', 'a'), budget.held('caller', 'b'), budget.held('caller', 'c')],
    [10, 6, 4, 0]
  )
  mine.release()
  mine.release()
  t.equal(budget.held(), 4, 'only the first release counts')
  other.release()
  t.strictSame([budget.held(), budget.held('caller', 'a'), budget.held('caller', 'b')], [0, 0, 0])
})

t.test('what is refused takes nothing, and a bracket gives back after a failure', async t => {
  const budget = budgetOf(10, 10)
  t.throws(() => budget.claim({ caller: 'a' }, 11))
  t.equal(budget.held(), 0)
  await t.rejects(
    budget.during({ caller: 'a' }, 10, async () => {
      t.equal(budget.held('caller', 'a'), 10)
      throw new Error('lost')
    }),
    /lost/
  )
  await t.rejects(
    budget.during({ caller: 'a' }, 11, async () => t.fail('it has no place')),
    { code: 'caller' }
  )
  t.equal(budget.held(), 0)
})

t.test('a thousand claims of random size in random order end at nothing', async t => {
  const budget = budgetOf(1000, 300)
  const open: Array<{ key: string; amount: number; release(): void }> = []
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below
  for (let i = 0; i < 1000; i++) {
    const [key, amount] = [`k${random(5)}`, random(80)]
    try {
      open.push({ key, amount, ...budget.claim({ caller: key }, amount) })
    } catch {
      open.splice(random(open.length), 1)[0]?.release()
    }
    const sum = open.reduce((all, each) => all + each.amount, 0)
    if (budget.held() !== sum || sum > 1000) t.fail(`${budget.held()} is held, not ${sum}`)
  }
  for (const { release } of open) release()
  t.equal(budget.held(), 0)
})

t.test('limits each kind of key, and returns what there is no room for without an error', async t => {
  const limits = { all: 5, each: { node: 4, caller: 3 } }
  const budget = createBudget({ ...limits, refuse: over => new Refusal('too_many', over, 'Too much') })
  const claim = (node: string, caller: string, amount: number) => budget.claim({ node, caller }, amount)
  const first = claim('a', 'x', 3)
  t.throws(() => claim('b', 'x', 1), { code: 'caller' }, 'what a caller has anywhere counts')
  t.throws(() => claim('a', 'y', 2), { code: 'node' })
  t.throws(() => claim('b', 'y', 3), { code: 'all' })
  t.equal(budget.tryClaim({ node: 'b', caller: 'y' }, 3), null)
  t.ok(budget.tryClaim({ node: 'b', caller: 'y' }, 2))
  t.equal(budget.held(), 5, 'what was refused does not count')
  first.release(1)
  t.throws(() => claim('a', 'x', 2), { code: 'caller' })
  first.release()
  first.release()
  t.equal(budget.held(), 2, 'nothing is given back twice')
  t.ok(claim('y', 'b', 2), 'kinds do not share keys')
})
