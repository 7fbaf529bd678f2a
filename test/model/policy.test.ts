import t from 'tap'
import { changePolicy, defaultPolicy, policyOf } from '../../lib/model/policy.js'

t.test('Absent keys of a policy have their default', async t => {
  t.same(policyOf({ policy: {} }), defaultPolicy)
  t.same(policyOf({ policy: { drift: 'refuse' } }), { ...defaultPolicy, drift: 'refuse' })
})

t.test('A change replaces the given keys, and null restores a default', async t => {
  const before = { drift: 'refuse', confirm: { seconds: 90 } } as const
  t.same(changePolicy(before, { onPostFailure: 'revert' }), { ...before, onPostFailure: 'revert' })
  t.same(changePolicy(before, { confirm: { seconds: 30 } }), { ...before, confirm: { seconds: 30 } })
  t.same(changePolicy(before, { drift: null }), { confirm: { seconds: 90 } })
  t.same(changePolicy({ drift: 'refuse' }, { drift: 'warn' }), {}, 'a default is not stored')
  const { rollout } = defaultPolicy
  t.same(changePolicy({}, { rollout }), { rollout }, 'it binds pushes, which an absent one does not')
  t.same(changePolicy({ rollout }, { rollout: null }), {})
  t.same(changePolicy({ drift: 'refuse' }, { drift: undefined }), { drift: 'refuse' }, 'an absent key stays')
})
