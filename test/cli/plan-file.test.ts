import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadPlan, savePlan } from '../../lib/cli/plan-file.js'
import { aPlan } from '../support/a-plan.js'

t.test('writes a plan and reads it again', async t => {
  const path = join(t.testdir(), 'plan.json')
  const plan = aPlan()
  await savePlan(path, plan)
  t.strictSame(await loadPlan(path), { planId: plan.planId, projectId: plan.project.id, treeSha256: plan.treeSha256 })
})

t.test('refuses what is no plan', async t => {
  const directory = t.testdir()
  const path = join(directory, 'plan.json')
  await t.rejects(savePlan(path, aPlan({ planId: null })), { code: 'plan_incomplete' })
  await t.rejects(savePlan(directory, aPlan()), { message: 'Cannot write' })
  await t.rejects(loadPlan(path), { message: 'Cannot read' })
  for (const text of ['', '[]', 'null', '{"planId":1}', '{"planId":"plan_1"}']) {
    writeFileSync(path, text)
    await t.rejects(loadPlan(path), { message: 'is not a plan' }, text)
  }
})
