import t from 'tap'
import { waitOption } from '../../../lib/cli/fleet/rollout-report.js'
import { shownFlag } from '../../../lib/cli/command.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { failsToSwap } from '../../support/obedient-agent.js'

t.test('a rollout that is halted again is a failure, in JSON as well', async t => {
  t.equal(shownFlag('wait', waitOption), '--no-wait')
  const { hub, shop, run } = await startFleet(t, ['web-1'], { 'web-1': failsToSwap })
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await run(`rollout status ${id} --follow`), { code: 1 })
  const again = await run(`rollout resume ${id} --json`)
  t.match(again, { code: 1, stderr: new RegExp(`next: svc rollout revert ${id}`) })
  t.match(JSON.parse(again.stdout), { id, state: 'halted', nodes: [{ phase: 'failed', failedStep: 'check' }] })
  t.match(await run(`rollout revert ${id}`), { code: 0, stdout: /reverted/ })
})
