import t from 'tap'
import { givenPolicy, policyKeys, type PolicyWish, storedPolicy, tighten } from '../../lib/model/policy-keys.js'
import { defaultPolicy, type PolicyChanges } from '../../lib/model/policy.js'
import { defaultRolloutPolicy, type RolloutPolicy } from '../../lib/model/rollout.js'

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
    [{ approval: { count: 0 } }, 'policy.approval.count'],
    [{ approval: { hours: 721 } }, 'policy.approval.hours'],
    [{ approval: { roles: [] } }, 'policy.approval.roles'],
    [{ approval: { roles: ['viewer'] } }, 'policy.approval.roles[0]'],
    [{ approval: { by: 'ana' } }, 'policy.approval.by'],
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

t.test('an approval has defaults', async t => {
  t.same(read({ approval: {} }).approval, { count: 1, roles: ['operator'], notPusher: true, hours: 24 })
  t.same(read({ approval: { count: 2, roles: ['admin'], notPusher: false, hours: 1 } }).approval, {
    count: 2,
    roles: ['admin'],
    notPusher: false,
    hours: 1
  })
})

t.test('a stored policy contains only what differs from the defaults', async t => {
  t.same(storedPolicy(undefined, 'policy'), {})
  t.same(storedPolicy({ drift: 'warn', onPostFailure: 'revert', gate: null }, 'policy'), { onPostFailure: 'revert' })
  t.throws(() => storedPolicy({ windows: {} }, 'policy'), { code: 'invalid_field', field: 'policy.windows' })
})

const below = ['viewer', 'deployer', 'project', 'global', 'metrics', 'agent', 'anonymous', 'a role of tomorrow']
const deciding = ['operator', 'admin', 'local']

const rollout = (changes: Partial<RolloutPolicy>): PolicyChanges => ({
  rollout: { ...defaultRolloutPolicy, canary: 2, ...changes }
})

/** What a request says about a key of a policy: the key that refuses it below operator, or null. */
const windows = { allow: [{ days: 'mon', from: '09:00', to: '16:00' }], freeze: [], tz: 'UTC' }
const table: Array<[what: string, policy: PolicyChanges, wish: PolicyWish, refusedBy: string | null]> = [
  ['nothing', { confirm: { seconds: 90 } }, {}, null],
  ['drift', {}, { force: true }, 'forceByDeployToken'],
  ['drift', { drift: 'refuse' }, { force: true }, 'forceByDeployToken'],
  ['drift', { drift: 'refuse', forceByDeployToken: true }, { force: true }, null],
  ['drift', { drift: 'refuse' }, { force: false }, null],
  ['drift', { drift: 'refuse' }, { forceMaintenance: true }, 'forceByDeployToken'],
  ['drift', { drift: 'refuse', forceByDeployToken: true }, { forceMaintenance: true }, null],
  ['drift', {}, { forceMaintenance: true }, null],
  ['confirm', {}, { confirmSeconds: 86_400 }, null],
  ['confirm', { confirm: { seconds: 90 } }, { confirmSeconds: null }, null],
  ['confirm', { confirm: { seconds: 90 } }, { confirmSeconds: 90 }, null],
  ['confirm', { confirm: { seconds: 90 } }, { confirmSeconds: 10 }, null],
  ['confirm', { confirm: { seconds: 90 } }, { confirmSeconds: 91 }, 'confirm'],
  ['onPostFailure', { onPostFailure: 'revert' }, { postDeployAsync: true }, 'onPostFailure'],
  ['onPostFailure', { onPostFailure: 'revert' }, { postDeployAsync: false }, null],
  ['onPostFailure', {}, { postDeployAsync: true }, null],
  ['prune', {}, { prune: 'managed' }, 'pruneByDeployToken'],
  ['prune', {}, { prune: 'force' }, 'pruneByDeployToken'],
  ['prune', {}, { prune: 'off' }, null],
  ['prune', { prune: 'managed' }, { prune: 'managed' }, null],
  ['prune', { prune: 'managed' }, { prune: 'off' }, null],
  ['prune', { prune: 'managed' }, { prune: 'force' }, 'pruneByDeployToken'],
  ['prune', { pruneByDeployToken: true }, { prune: 'force' }, null],
  ['windows', {}, { override: 'now' }, null],
  ['windows', { windows }, { override: 'now' }, 'windows'],
  ['windows', { windows }, { override: null }, null],
  ['rollout', {}, { rollout: { canary: 9, then: '100%', maxFailures: 9 } }, null],
  ['rollout', { rollout: defaultRolloutPolicy }, { rollout: { maxFailures: 9 } }, 'rollout.maxFailures'],
  ['rollout', rollout({}), { rollout: {} }, null],
  ['rollout', rollout({}), { rollout: { canary: 1 } }, null],
  ['rollout', rollout({}), { rollout: { canary: 3 } }, 'rollout.canary'],
  ['rollout', rollout({ then: '25%' }), { rollout: { then: '25%' } }, null],
  ['rollout', rollout({ then: '25%' }), { rollout: { then: '24%' } }, null],
  ['rollout', rollout({ then: '25%' }), { rollout: { then: '26%' } }, 'rollout.then'],
  ['rollout', rollout({ then: '25%' }), { rollout: { then: '1' } }, null],
  ['rollout', rollout({ then: '25%' }), { rollout: { then: '2' } }, 'rollout.then'],
  ['rollout', rollout({ then: '2' }), { rollout: { then: '3' } }, 'rollout.then'],
  ['rollout', rollout({ then: '2' }), { rollout: { then: '1%' } }, 'rollout.then'],
  ['rollout', rollout({ then: '100%' }), { rollout: { then: '7' } }, null],
  ['rollout', rollout({ pause: 'approve' }), { rollout: { pause: 'approve' } }, null],
  ['rollout', rollout({ pause: 'approve' }), { rollout: { pause: 604_800 } }, 'rollout.pause'],
  ['rollout', rollout({ pause: 'approve' }), { rollout: { pause: 0 } }, 'rollout.pause'],
  ['rollout', rollout({ pause: 60 }), { rollout: { pause: 'approve' } }, null],
  ['rollout', rollout({ pause: 60 }), { rollout: { pause: 61 } }, null],
  ['rollout', rollout({ pause: 60 }), { rollout: { pause: 59 } }, 'rollout.pause'],
  ['rollout', rollout({ maxFailures: 1 }), { rollout: { maxFailures: 0 } }, null],
  ['rollout', rollout({ maxFailures: 1 }), { rollout: { maxFailures: 2 } }, 'rollout.maxFailures'],
  ['rollout', rollout({ maxUnreachable: '0' }), { rollout: { maxUnreachable: '0%' } }, null],
  ['rollout', rollout({ maxUnreachable: '0' }), { rollout: { maxUnreachable: '1' } }, 'rollout.maxUnreachable'],
  ['rollout', rollout({ maxUnreachable: '0%' }), { rollout: { maxUnreachable: '1' } }, 'rollout.maxUnreachable'],
  ['rollout', rollout({ maxUnreachable: '10%' }), { rollout: { maxUnreachable: '0' } }, null],
  ['rollout', rollout({ onFailure: 'revert_wave' }), { rollout: { onFailure: 'halt' } }, 'rollout.onFailure'],
  ['rollout', rollout({ onFailure: 'revert_wave' }), { rollout: { onFailure: 'revert_all' } }, null],
  ['rollout', rollout({ order: 'zone' }), { rollout: { order: 'zone' } }, null],
  ['rollout', rollout({ order: 'zone' }), { rollout: { order: 'rack' } }, 'rollout.order'],
  ['rollout', rollout({ order: 'zone' }), { rollout: { order: null } }, 'rollout.order'],
  ['rollout', rollout({ order: null }), { rollout: { order: 'zone' } }, null]
]

t.test('below operator, a request makes a policy only stricter', async t => {
  for (const [key, policy, wish, refusedBy] of table) {
    const what = `${key}: ${JSON.stringify(policy)}, asked ${JSON.stringify(wish)}`
    for (const role of below) {
      if (refusedBy === null) t.doesNotThrow(() => tighten({ policy }, wish, { role }), `${role}: ${what}`)
      else {
        const refusal = { code: 'deploy_token_may_not', field: refusedBy, message: new RegExp(refusedBy) }
        t.throws(() => tighten({ policy }, wish, { role }), refusal, `${role}: ${what}`)
      }
    }
    for (const role of deciding) t.doesNotThrow(() => tighten({ policy }, wish, { role }), `${role}: ${what}`)
  }
})

t.test('every key of a policy, and of that of rollouts, is decided here or can only be set', async t => {
  const asked = new Set(table.map(([key]) => key).filter(key => key !== 'nothing'))
  const onlySet = [
    'gate',
    'revertScript',
    'onFailureScript',
    'fileMode',
    'directoryMode',
    'group',
    'maintenanceFile',
    'maintenancePage',
    'promoteFrom',
    'approval',
    'protect',
    'rollback',
    'exact',
    'signatures'
  ]
  const permits = ['pruneByDeployToken', 'forceByDeployToken']
  t.same([...asked, ...onlySet, ...permits].sort(), Object.keys(policyKeys).sort())
  t.same(Object.keys(policyKeys).sort(), Object.keys(defaultPolicy).sort())
  const refused = new Set(table.map(([, , , key]) => key))
  for (const key in defaultRolloutPolicy) t.ok(refused.has(`rollout.${key}`), key)
})
