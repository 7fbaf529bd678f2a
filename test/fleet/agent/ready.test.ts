import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { makeReady, waitAfter } from '../../../lib/fleet/agent/ready.js'
import type { Release } from '../../../lib/fleet/agent/releases.js'
import { never } from '../../support/deploy-stage.js'

const release = { archivePath: '/a.zip' } as Release

/** Fails with these errors, one after the other, and then has the release. */
function failing(errors: Error[], signal: AbortSignal = never) {
  const reasons: string[] = []
  let attempts = 0
  const made = makeReady({
    async prepare() {
      attempts++
      const error = errors.shift()
      if (error !== undefined) throw error
      return release
    },
    retriesMs: [1],
    failed: reason => void reasons.push(reason),
    signal
  })
  return { made, reasons, attempts: () => attempts }
}

t.test('tries again while the hub cannot be reached, and says so once', async t => {
  const away = () => new Refusal('unavailable', 'hub_unreachable', 'No hub')
  const { made, reasons, attempts } = failing([away(), away(), new Error('reset')])
  t.equal(await made, release)
  t.same(reasons, ['No hub'])
  t.equal(attempts(), 4)
})

t.test('returns what another attempt would not cure; an archive is fetched a second time if it is damaged', async t => {
  const damaged = () => new Refusal('invalid', 'wrong_digest', 'Another digest')
  t.equal(await failing([damaged()]).made, release)
  t.match(await failing([damaged(), damaged()]).made, { code: 'wrong_digest' })
  t.match(await failing([new Refusal('unavailable', 'no_space', 'Full')]).made, { code: 'no_space' })
  t.match(await failing([new Refusal('forbidden', 'client_scripts_off', 'No')]).made, { code: 'client_scripts_off' })
})

t.test('is given up when the signal aborts', async t => {
  const controller = new AbortController()
  const { made } = failing(Array(1000).fill(new Error('reset')), controller.signal)
  controller.abort()
  t.equal(await made, 'given up')
})

t.test('the last wait is repeated', t => {
  t.same(
    [0, 1, 2, 9].map(attempt => waitAfter(attempt, [5, 6, 7])),
    [5, 6, 7, 7]
  )
  t.end()
})
