import t from 'tap'
import { rolloutPolicy } from '../../../../lib/model/rollout-policy.js'
import { defaultRolloutPolicy } from '../../../../lib/model/rollout.js'
import { noRollout, rolloutDraft, rolloutOfDraft } from '../../../../www/elements/projects/rollout-form.js'

t.test('a policy that is loaded into the form and saved is the same policy', async t => {
  for (const given of [
    defaultRolloutPolicy,
    {
      canary: 3,
      then: '10',
      pause: 60,
      maxFailures: 2,
      maxUnreachable: '10%',
      onFailure: 'revert_wave',
      order: 'zone'
    },
    { pause: 'approve', onFailure: 'revert_all' },
    { pause: 0 }
  ]) {
    const stored = rolloutPolicy(given, 'policy.rollout')
    t.same(rolloutPolicy(rolloutOfDraft(rolloutDraft(stored)), 'policy.rollout'), stored)
  }
})

t.test('empty texts are the default', async t => {
  t.equal(rolloutOfDraft(noRollout), null)
  t.same(rolloutDraft(undefined), noRollout)
  t.same(rolloutDraft(null), noRollout)
})

t.test('the server refuses a pause that is no number at its field', async t => {
  const sent = rolloutOfDraft({ ...noRollout, pause: 'seconds', pauseSeconds: 'soon' })
  const received = JSON.parse(JSON.stringify(sent))
  t.throws(() => rolloutPolicy(received, 'policy.rollout'), { code: 'invalid_field', field: 'policy.rollout.pause' })
})
