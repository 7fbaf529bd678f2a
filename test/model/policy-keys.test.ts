import t from 'tap'
import { givenPolicy, storedPolicy } from '../../lib/model/policy-keys.js'

const read = (value: unknown) => givenPolicy(value, 'policy')

t.test('a policy is read with its keys, and null restores a default', async t => {
  t.match(read({ drift: 'refuse', confirm: null }), { drift: 'refuse', confirm: null, gate: undefined })
  const { gate } = read({ gate: { after: [{ tcp: '127.0.0.1:5432' }], deadline: 60 } })
  t.same(gate, {
    after: [{ tcp: '127.0.0.1:5432' }],
    interval: 1,
    timeout: 5,
    deadline: 60,
    successes: 2,
    stableFor: 0,
    onFailure: 'revert'
  })
})

t.test('an invalid policy is refused with the name of the field', async t => {
  const wrong: Array<[unknown, string]> = [
    ['warn', 'policy'],
    [[], 'policy'],
    [{ prune: 'all' }, 'policy.prune'],
    [{ windows: {} }, 'policy.windows'],
    [{ protect: 'uploads' }, 'policy.protect'],
    [{ protect: ['{a,b}'.repeat(20)] }, 'policy.protect[0]'],
    [{ drift: 'ignore' }, 'policy.drift'],
    [{ confirm: { seconds: 9 } }, 'policy.confirm.seconds'],
    [{ confirm: { seconds: 90, by: 'other' } }, 'policy.confirm.by'],
    [{ gate: 'http://127.0.0.1/' }, 'policy.gate'],
    [{ gate: {} }, 'policy.gate.after'],
    [{ gate: { after: [{ http: '/up' }] } }, 'policy.gate.after[0].http'],
    [{ gate: { after: [{ pm2: 'online', wait: 1 }] } }, 'policy.gate.after[0].wait'],
    [{ gate: { after: [], deadline: 601 } }, 'policy.gate.deadline']
  ]
  for (const [value, field] of wrong)
    t.throws(() => read(value), { code: 'invalid_field', field }, JSON.stringify(value))
})

t.test('a stored policy contains only what differs from the defaults', async t => {
  t.same(storedPolicy(undefined, 'policy'), {})
  t.same(storedPolicy({ drift: 'warn', onPostFailure: 'revert', gate: null }, 'policy'), { onPostFailure: 'revert' })
  t.throws(() => storedPolicy({ windows: {} }, 'policy'), { code: 'invalid_field', field: 'policy.windows' })
})
