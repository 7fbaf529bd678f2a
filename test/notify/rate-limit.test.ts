import t from 'tap'
import { createRateLimit } from '../../lib/notify/rate-limit.js'
import { setClock } from '../support/clock.js'

t.test('so many within a minute, each and all together', async t => {
  const clock = setClock()
  const limit = createRateLimit({ clock, perKey: 2, ofAll: 5 })
  clock.advance(20_000)
  for (const key of ['a', 'b', 'a', 'b']) limit.take(key)
  t.throws(() => limit.take('a'), { kind: 'too_many', code: 'rate_limited', retryAfterSeconds: 40 })
  limit.take('c')
  t.throws(() => limit.take('d'), { code: 'rate_limited' }, 'everybody together')
  clock.advance(40_000)
  limit.take('a')
  limit.take('d')
})
