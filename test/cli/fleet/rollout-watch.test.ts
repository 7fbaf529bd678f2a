import t from 'tap'
import { detachedLine, nextLine } from '../../../lib/cli/fleet/rollout-watch.js'
import { rolloutDetail } from '../../support/a-rollout.js'

/* commands/rollout-status.test.ts watches real rollouts. */
t.test('the hints repeat the options of the command, and never a token', async t => {
  const given = { server: 'https://deploy.example.org', token: 'secret' }
  const options = '--server https://deploy.example.org --token -'
  t.equal(
    detachedLine('ro_a', given),
    `Detached: the rollout continues. Halt it with: svc rollout halt ro_a ${options}\n` +
      `To watch it again: svc rollout status ro_a --follow ${options}`
  )
  const next = (state: 'approval' | 'halted' | 'done' | 'swapping') => nextLine(rolloutDetail([], { state }), {})
  t.equal(next('approval'), 'next: svc rollout approve ro_a   or   svc rollout halt ro_a')
  t.equal(next('halted'), 'next: svc rollout revert ro_a   or   svc rollout resume ro_a')
  t.equal(next('done'), null)
  t.equal(next('swapping'), null)
})
