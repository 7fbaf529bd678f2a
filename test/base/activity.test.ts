import t from 'tap'
import { createActivity } from '../../lib/base/activity.js'

t.test('counts work until it settles, whether it succeeds or fails', async t => {
  const activity = createActivity()
  let end = (): void => {}
  const first = activity.during(() => new Promise<string>(resolve => (end = () => resolve('done'))))
  const second = activity.during(async () => {
    throw new Error('broken')
  })
  t.same([activity.now, activity.total], [2, 2])
  await t.rejects(second, { message: 'broken' })
  t.same([activity.now, activity.total], [1, 2])
  end()
  t.equal(await first, 'done')
  t.same([activity.now, activity.total], [0, 2])
})
