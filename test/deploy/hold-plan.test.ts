import t from 'tap'
import { holdPlanOf, longestMs, type HoldPlan } from '../../lib/deploy/hold-plan.js'
import { defaultGate } from '../../lib/model/gate.js'
import { defaultPolicy } from '../../lib/model/policy.js'

const gate = { ...defaultGate, after: [{ tcp: 'a:1' }] }

t.test('a deployment is held only if the policy or the request says so', async t => {
  t.equal(holdPlanOf(defaultPolicy, null), null)
  t.equal(holdPlanOf({ ...defaultPolicy, gate: { ...gate, after: [] } }, null), null, 'no checks')
  t.match(holdPlanOf({ ...defaultPolicy, gate }, null), { gate, confirmSeconds: null, revertsOnPostFailure: false })
  t.match(holdPlanOf({ ...defaultPolicy, onPostFailure: 'revert' }, null), { revertsOnPostFailure: true })
  t.match(holdPlanOf({ ...defaultPolicy, confirm: { seconds: 90 } }, null), { confirmSeconds: 90 })
  t.match(holdPlanOf({ ...defaultPolicy, confirm: { seconds: 90 } }, 30), { confirmSeconds: 30 })
  t.match(holdPlanOf({ ...defaultPolicy, revertScript: 'none' }, 30), { runsRevertScript: false })
})

t.test('the upper bound of each phase contains the phases after it', async t => {
  const plan = holdPlanOf({ ...defaultPolicy, gate }, 90) as HoldPlan
  t.equal(longestMs(plan, 'confirm', 1000), 90_000)
  t.ok(longestMs(plan, 'check', 1000) >= (gate.deadline + gate.timeout + 90) * 1000)
  t.ok(longestMs(plan, 'post', 1000) > longestMs(plan, 'check', 1000) + 1000)
})
