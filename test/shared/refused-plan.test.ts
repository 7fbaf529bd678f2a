import t from 'tap'
import { isRefused } from '../../lib/shared/refused-plan.js'

t.test('refuses a plan with a conflict or a failed check', async t => {
  const plan = (conflicts: number, ...checks: boolean[]) => ({
    counts: { conflicts },
    checks: checks.map(ok => ({ ok }))
  })
  t.notOk(isRefused(plan(0, true, true)))
  t.notOk(isRefused(plan(0)))
  t.ok(isRefused(plan(1, true)))
  t.ok(isRefused(plan(0, true, false)))
})
