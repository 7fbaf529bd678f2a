import t from 'tap'
import { createKeptPlans, refuseOtherLive, type KeptPlan } from '../../lib/deploy/kept-plans.js'

const plan = (bytes = 8, liveId: string | null = null): KeptPlan => ({
  projectId: 'proj_1',
  liveId,
  prune: 'off',
  force: false,
  pruned: 0,
  expected: {
    plannedAtMs: 0,
    marks: new Uint8Array(bytes),
    foundSha256: '',
    digits: 64,
    wantedSha256: '',
    contentsSha256: '',
    removedSha256: '',
    removedMarks: new Uint8Array()
  }
})

t.test('keeps plans for fifteen minutes', async t => {
  let now = 0
  const plans = createKeptPlans(() => now)
  const kept = plan()
  t.equal(plans.keep('plan_1', kept), 15 * 60_000)
  now = 15 * 60_000 - 1
  t.match(plans.find('plan_1'), kept)
  now++
  t.equal(plans.find('plan_1'), undefined)
})

t.test('drops the oldest plans above a number, and above a size', async t => {
  const plans = createKeptPlans(() => 0)
  for (let i = 0; i < 65; i++) plans.keep(`plan_${i}`, plan())
  t.equal(plans.find('plan_0'), undefined)
  t.ok(plans.find('plan_1'))
  const large = 9 * 1024 * 1024
  plans.keep('large_1', plan(large))
  plans.keep('large_2', plan(large))
  t.equal(plans.find('large_1'), undefined)
  t.equal(plans.find('plan_64'), undefined)
  t.ok(plans.find('large_2'), 'the newest plan is kept, whatever its size')
})

t.test('a plan is outdated after another deployment', async t => {
  t.doesNotThrow(() => refuseOtherLive(plan(8, 'dep_1'), 'dep_1'))
  t.doesNotThrow(() => refuseOtherLive(plan(8, null), null))
  t.throws(() => refuseOtherLive(plan(8, 'dep_1'), 'dep_2'), { code: 'plan_outdated', message: 'deployment dep_2' })
  t.throws(() => refuseOtherLive(plan(8, 'dep_1'), null), { code: 'plan_outdated' })
})
