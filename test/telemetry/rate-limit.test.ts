import t from 'tap'
import { createRateLimit } from '../../lib/telemetry/rate-limit.js'
import { setClock } from '../support/clock.js'

t.test('limits requests per minute, by key and in total', async t => {
  const clock = setClock()
  const limit = createRateLimit({ clock, perKey: 2, ofAll: 5 })
  clock.advance(20_000)
  for (const key of ['a', 'b', 'a', 'b']) limit.take(key)
  t.throws(() => limit.take('a'), { kind: 'too_many', code: 'rate_limited', retryAfterSeconds: 40 })
  limit.take('c')
  t.throws(() => limit.take('d'), { code: 'rate_limited' }, 'the total limit')
  clock.advance(40_000)
  limit.take('a')
  limit.take('d')
})
