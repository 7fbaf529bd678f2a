import t from 'tap'
import { readRolloutOptions, requirePlacement } from '../../lib/cli/rollout-options.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import type { UploadPermit } from '../../lib/model/upload-permit.js'

const none = {
  canary: undefined,
  then: undefined,
  pause: undefined,
  'max-failures': undefined,
  'max-unreachable': undefined,
  'on-failure': undefined,
  order: undefined
}

t.test('options become keys of the policy, and times become seconds', async t => {
  t.equal(readRolloutOptions(none), undefined)
  t.same(readRolloutOptions({ ...none, canary: 2, then: '25%', pause: '2m', 'max-failures': 0 }), {
    canary: 2,
    then: '25%',
    pause: 120,
    maxFailures: 0
  })
  t.same(readRolloutOptions({ ...none, pause: 'approve', 'on-failure': 'revert_all', 'max-unreachable': '10%' }), {
    pause: 'approve',
    onFailure: 'revert_all',
    maxUnreachable: '10%'
  })
})

t.test('a wrong value is refused by its flag', async t => {
  const wrong = { then: '0', pause: '1 minute', 'max-unreachable': 'half', order: 'no spaces' }
  for (const [flag, value] of Object.entries(wrong))
    t.throws(() => readRolloutOptions({ ...none, [flag]: value }), { code: 'usage', field: `--${flag}` }, flag)
})

t.test('a project without nodes refuses options about waves', async t => {
  const permit = { rollout: null } as UploadPermit
  t.throws(() => requirePlacement({ maxFailures: 1 }, permit), {
    code: 'project_not_placed',
    message: /--max-failures/
  })
  t.throws(() => requirePlacement({ canary: 1 }, null), { code: 'project_not_placed' }, 'an older server')
  t.doesNotThrow(() => requirePlacement(undefined, permit))
  const rollout = { nodes: 1, waves: 1, policy: defaultRolloutPolicy }
  t.doesNotThrow(() => requirePlacement({ canary: 1 }, { ...permit, rollout }))
})
