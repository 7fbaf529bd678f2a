import t from 'tap'
import { changesAnything, type PlanCounts, planKinds } from '../../lib/model/plan.js'

const counts = (patch: Partial<PlanCounts> = {}): PlanCounts =>
  ({ ...Object.fromEntries(planKinds.map(kind => [kind, 0])), ...patch }) as PlanCounts

t.test('a plan changes something if a path is added, changed, removed, or gets another time', async t => {
  for (const kind of planKinds) {
    const expected = ['added', 'changed', 'timeOnly', 'pruned'].includes(kind)
    t.equal(changesAnything(counts({ [kind]: 1 })), expected, kind)
  }
})
