import t from 'tap'
import { deployStage } from '../support/deploy-stage.js'
import { runHistories } from '../support/history.js'
import { repetitions } from '../support/thorough.js'

/* test/soak/histories.ts runs thousands of them. */
t.test('whatever happens to a target, it is as the model says', async t => {
  const stage = await deployStage(t)
  stage.values.keep_archives = 1000
  const count = repetitions(10, 300)
  const seen = await runHistories(
    t,
    stage,
    Array.from({ length: count }, (_, at) => at + 1)
  )
  for (const kind of ['deploy', 'changes', 'edit', 'undo', 'back'])
    t.ok((seen[kind] ?? 0) > count / 4, `${kind}: ${seen[kind]}`)
})
