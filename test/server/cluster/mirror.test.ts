import t from 'tap'
import { startMirror } from '../../../lib/server/cluster/mirror.js'
import { until } from '../../support/until.js'

t.test('works when a record has changed, one run at a time, and ends with the hub', async t => {
  let [version, runs, open] = ['1', 0, 0]
  let aborted = false
  const mirror = startMirror({
    archives: {
      async mirror(signal) {
        t.equal(open++, 0)
        runs++
        await new Promise(resolve => setImmediate(resolve))
        signal.addEventListener('abort', () => void (aborted = true))
        open--
      }
    },
    store: { version: () => version, onRole: () => () => {} },
    log: () => t.fail('nothing fails'),
    everyMs: 2
  })
  await until(() => runs === 1)
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(runs, 1, 'nothing has changed')
  version = '2'
  await until(() => runs === 2)
  await mirror.stop()
  t.ok(aborted)
})

t.test('an error is reported, and tried again with the next change', async t => {
  const told: unknown[] = []
  let version = 0
  const mirror = startMirror({
    archives: { mirror: async () => Promise.reject(new Error('no disk')) },
    store: { version: () => String(version++), onRole: () => () => {} },
    log: (_, error) => void told.push(error),
    everyMs: 1
  })
  await until(() => told.length > 1)
  await mirror.stop()
  t.match(told[0], { message: 'no disk' })
})
