import '../../../support/without-dom.js'
import t from 'tap'
import { rolloutPolicy } from '../../../../lib/model/rollout-policy.js'
import { defaultRolloutPolicy } from '../../../../lib/model/rollout.js'
import {
  noRollout,
  rolloutDraft,
  rolloutOfDraft,
  draftOf,
  newCheck,
  policyOfDraft
} from '../../../../www/elements/projects/policy-form.js'
import { givenPolicy, policyKeys, storedPolicy } from '../../../../lib/model/policy-keys.js'

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

const full = {
  drift: 'refuse',
  gate: {
    after: [
      { http: 'http://127.0.0.1:3000/up', status: '200', header: { host: 'shop' } },
      { tcp: '127.0.0.1:5432' },
      { command: 'node check.js', timeout: 20 },
      { pm2: 'online' },
      { log: 'lsrc_a', none: 'panic', for: 30 }
    ],
    interval: 0.5,
    timeout: 5,
    deadline: 60,
    successes: 3,
    stableFor: 10,
    onFailure: 'keep'
  },
  confirm: { seconds: 90 },
  onPostFailure: 'revert',
  revertScript: 'none',
  onFailureScript: './report\n./page',
  prune: 'managed',
  protect: ['uploads/**', '.env*'],
  pruneByDeployToken: true,
  forceByDeployToken: true,
  rollback: 'exact',
  exact: 'required',
  fileMode: '0640',
  directoryMode: '2750',
  group: 'www-data',
  maintenanceFile: '.down',
  maintenancePage: 'down.html',
  rollout: { canary: 2, then: '50%' }
}

t.test('a policy that is loaded into the form and saved is the same policy', async t => {
  for (const policy of [full, {}, { drift: 'off' }]) {
    const stored = storedPolicy(policy, 'policy')
    const sent = JSON.parse(JSON.stringify(policyOfDraft(draftOf(stored))))
    t.same(storedPolicy(sent, 'policy'), stored)
  }
})

t.test('empty texts restore defaults, and a changed kind drops the fields of the other kind', async t => {
  const empty = draftOf({})
  // These are set by the command line; a saved form leaves them as they are.
  const elsewhere = ['windows', 'promoteFrom', 'approval']
  const keys = Object.keys(policyKeys).filter(key => !elsewhere.includes(key))
  t.same(policyOfDraft(empty), Object.fromEntries(keys.map(key => [key, null])))
  const checks = draftOf(storedPolicy(full, 'policy')).checks.slice(0, 1)
  const changed = policyOfDraft({
    ...empty,
    checks: checks.map(check => ({ ...check, kind: 'tcp', tcp: 'localhost:80' }))
  })
  t.same(changed.gate?.after, [{ tcp: 'localhost:80' }])
})

t.test('the server refuses an incomplete check at its field', async t => {
  const sent = JSON.parse(JSON.stringify(policyOfDraft({ ...draftOf({}), checks: [newCheck()] })))
  t.throws(() => givenPolicy(sent, 'policy'), { code: 'invalid_field', field: 'policy.gate.after[0].http' })
})
