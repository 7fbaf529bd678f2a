import t from 'tap'
import { showRollback } from '../../lib/cli/exact-run.js'
import type { Context } from '../../lib/cli/command.js'
import { createPaint } from '../../lib/cli/terminal/colors.js'
import type { RollbackPlan } from '../../lib/model/rollback-plan.js'

t.test('a dry run fails if the rollback would be refused', async t => {
  const printed: unknown[] = []
  const output = {
    paint: createPaint({ isTTY: false }, {}),
    print: printed.push.bind(printed),
    json: printed.push.bind(printed)
  }
  const host = { stderr: { isTTY: false }, on: () => {}, off: () => {} }
  const context = { host, output } as unknown as Context
  const problem = { code: 'not_exact', message: 'Cannot go back exactly' }
  const plan = { mode: 'exact', to: null, over: 0, problem } as RollbackPlan
  t.equal(await showRollback(async () => plan, { json: false, force: false }, context), 1)
  t.match(printed, [
    'Exactly to the state before the first deployment',
    '✗ Cannot go back exactly',
    'Nothing was changed.'
  ])
  printed.length = 0
  t.equal(await showRollback(async () => ({ ...plan, problem: null }), { json: true, force: false }, context), 0)
  t.match(printed, [{ mode: 'exact', problem: null }])
})
