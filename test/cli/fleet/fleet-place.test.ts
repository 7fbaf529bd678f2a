import t from 'tap'
import { parsedLabel, placedLine, readLabels } from '../../../lib/cli/fleet/fleet-place.js'
import type { RolloutState } from '../../../lib/model/rollout.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'

t.test('labels are read as key=value', async t => {
  t.same(readLabels(['zone=eu', 'beta=']), { zone: 'eu', beta: '' })
  t.throws(() => readLabels(['zone']), { code: 'usage', field: '--label' })
  t.equal(parsedLabel('zone=eu'), 'zone=eu')
  t.throws(() => parsedLabel('=eu'), { code: 'usage' })
})

t.test('the newest rollout of the project is meant, unless an id is given', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1'])
  const first = await beginRollout({ hub }, {}, shop.id)
  await run(`rollout status ${first} --follow`)
  const second = await beginRollout({ hub }, {}, shop.id)
  await run(`rollout status ${second} --follow`)
  for (const word of [shop.id, 'shop'])
    t.match(JSON.parse((await run(`rollout status --project ${word} --json`)).stdout), { id: second })
  t.match(JSON.parse((await run(`rollout status ${first} --json`)).stdout), { id: first })
  t.match(await run('rollout status'), { code: 1, stderr: /--project/ })
  t.match(await run('rollout status ro_unknown'), { code: 1, stderr: /not found/ })
})

t.test('says what nodes get that are added', async t => {
  const line = (state: RolloutState): string => placedLine({ id: 'ro_a', state, deployId: 'dep_a' })
  t.match(placedLine(undefined), /get the next push/)
  t.match(line('done'), 'The added nodes get dep_a, as rollout ro_a did.')
  for (const state of ['preparing', 'swapping', 'pausing', 'approval'] as const)
    t.match(line(state), 'The added nodes get dep_a with rollout ro_a.', state)
  t.match(
    line('halted'),
    /nothing yet: rollout ro_a is halted. Next: svc rollout revert ro_a {3}or {3}svc rollout resume ro_a$/
  )
  t.match(line('reverting'), /nothing yet: rollout ro_a is going back/)
  t.match(line('reverted'), /nothing yet: rollout ro_a was reverted.*Push again/)
})
