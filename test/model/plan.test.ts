import t from 'tap'
import { changesAnything, isRefused, planKinds, type PlanCheck, type PlanCounts } from '../../lib/model/plan.js'

const counts = (patch: Partial<PlanCounts> = {}): PlanCounts =>
  ({ ...Object.fromEntries(planKinds.map(kind => [kind, 0])), ...patch }) as PlanCounts

t.test('a plan changes something if a path is added, changed, removed, or gets another time', async t => {
  for (const kind of planKinds) {
    const expected = ['added', 'changed', 'timeOnly', 'pruned'].includes(kind)
    t.equal(changesAnything(counts({ [kind]: 1 })), expected, kind)
  }
})

t.test('a conflict and a failed check refuse the deployment', async t => {
  const check = (ok: boolean): PlanCheck => ({ name: 'inodes', ok })
  t.notOk(isRefused({ counts: counts({ drifted: 1 }), checks: [check(true)] }))
  t.ok(isRefused({ counts: counts({ conflicts: 1 }), checks: [check(true)] }))
  t.ok(isRefused({ counts: counts(), checks: [check(true), check(false)] }))
})
