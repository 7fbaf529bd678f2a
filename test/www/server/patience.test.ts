import t from 'tap'
import { Refused } from '../../../www/server/client.js'
import { whenFree } from '../../../www/server/patience.js'

const never = new AbortController().signal
const refusal = (code: string): Refused => new Refused(409, { error: 'No', code }, null)

t.test('waits while the server is busy, and for nothing else', async t => {
  let calls = 0
  const busyOnce = async (): Promise<string> => {
    if (++calls === 1) throw refusal('plan_busy')
    return 'done'
  }
  t.equal(await whenFree(busyOnce, never), 'done')
  t.equal(calls, 2)
  await t.rejects(
    whenFree(async () => {
      calls++
      throw refusal('locked')
    }, never),
    { code: 'locked' }
  )
  t.equal(calls, 3)
})

t.test('ends when nobody waits any more', async t => {
  const leaving = new AbortController()
  const busy = whenFree(async () => {
    leaving.abort(new Error('left'))
    throw refusal('plan_busy')
  }, leaving.signal)
  await t.rejects(busy, { message: 'left' })
})
