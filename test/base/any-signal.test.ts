import { getEventListeners } from 'node:events'
import t from 'tap'
import { withAnySignal } from '../../lib/base/any-signal.js'

const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise(resolve => (signal.aborted ? resolve(signal.reason) : (signal.onabort = () => resolve(signal.reason))))

t.test('aborts with the first signal and its reason, and leaves no listener', async t => {
  const [one, other] = [new AbortController(), new AbortController()]
  const signals = [one.signal, other.signal]
  const reason = new Error('enough')
  const running = withAnySignal({ signals }, aborted)
  other.abort(reason)
  t.equal(await running, reason)
  t.equal(await withAnySignal({ signals }, aborted), reason, 'one that was aborted before')
  t.equal(await withAnySignal({ signals: [one.signal], withinMs: 60_000 }, async () => 'done'), 'done')
  await t.rejects(
    withAnySignal({ signals: [one.signal] }, async () => {
      throw reason
    }),
    reason
  )
  t.equal(getEventListeners(one.signal, 'abort').length, 0)
})

t.test('aborts after a time', async t => {
  const never = new AbortController().signal
  t.match(await withAnySignal({ signals: [never], withinMs: 1 }, aborted), { name: 'TimeoutError' })
})
