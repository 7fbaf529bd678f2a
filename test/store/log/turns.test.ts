import t from 'tap'
import { setImmediate as later } from 'node:timers/promises'
import { createTurns } from '../../../lib/store/log/turns.js'

t.test('work runs one after the other, also after a failure', async t => {
  const turns = createTurns()
  const seen: string[] = []
  const work = (name: string, fails = false) =>
    turns(async () => {
      seen.push(`${name} begins`)
      await later()
      seen.push(`${name} ends`)
      if (fails) throw new Error(name)
      return name
    })
  const all = [work('a'), work('b', true), work('c')]
  t.equal(await all[0], 'a')
  await t.rejects(all[1] as Promise<string>, { message: 'b' })
  t.equal(await all[2], 'c')
  t.same(seen, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})
