import '../../../support/without-dom.js'
import t from 'tap'
import type { PolicyChanges } from '../../../../lib/model/policy.js'
import { newProjectFields } from '../../../../lib/model/project-fields.js'
import { givenPolicy, policyKeys, storedPolicy } from '../../../../lib/model/policy-keys.js'
import { type CardName, cards, rowsOf } from '../../../../www/elements/projects/project-cards.js'
import type { Draft } from '../../../../www/elements/projects/safety-rows.js'
import { added, changed, draftOf, fieldsOf, givenOf } from '../../../../www/elements/projects/project-cards.js'

const names = Object.keys(cards) as CardName[]

/** Returns what saving all cards sends. */
function sentOf(draft: Draft): { policy: object } & Record<string, unknown> {
  const given = names.map(name => givenOf(name, draft))
  return JSON.parse(JSON.stringify(fieldsOf(Object.assign({}, ...given))))
}

const policyDraft = (policy: PolicyChanges): Draft => draftOf({ policy })

const full = {
  drift: 'refuse',
  gate: {
    after: [
      { http: 'http://127.0.0.1:3000/up', status: '200', header: { host: 'shop' } },
      { tcp: '127.0.0.1:5432' },
      { command: 'node check.js', timeout: 20 },
      { pm2: 'online' },
      { log: 'lsrc_a', none: 'panic', for: 30 }
    ],
    interval: 0.5,
    timeout: 5,
    deadline: 60,
    successes: 3,
    stableFor: 10,
    onFailure: 'keep'
  },
  confirm: { seconds: 90 },
  onPostFailure: 'revert',
  revertScript: 'none',
  onFailureScript: './report\n./page',
  prune: 'managed',
  protect: ['uploads/**', '.env*'],
  pruneByDeployToken: true,
  forceByDeployToken: true,
  rollback: 'exact',
  exact: 'required',
  fileMode: '0640',
  directoryMode: '2750',
  group: 'www-data',
  maintenanceFile: '.down',
  maintenancePage: 'down.html',
  rollout: { canary: 2, then: '50%' },
  windows: {
    allow: [{ days: 'mon-thu', from: '09:00', to: '24:00' }],
    freeze: [{ from: '2026-12-20', to: '2027-01-03', reason: 'Christmas' }],
    tz: 'Europe/Berlin'
  },
  promoteFrom: { projectId: 'proj_staging', soakMinutes: 30 },
  approval: { count: 2, roles: ['admin'], notPusher: false, hours: 8 },
  signatures: {
    require: 'refuse',
    threshold: 2,
    keys: ['key_a', 'key_b'],
    sbom: 'require',
    rollbackBySignature: 'refuse'
  }
}

t.test('each field of a project and each key of a policy is in one card', async t => {
  const paths = names.flatMap(name => rowsOf(name)).map(({ path }) => path)
  t.equal(new Set(paths).size, paths.length, 'none is in two')
  const fields = Object.keys(newProjectFields).filter(name => name !== 'policy' && name !== 'pinned')
  const keys = Object.keys(policyKeys).map(key => `policy.${key}`)
  const shown = paths.filter(path => !path.startsWith('#')).map(path => path.match(/^(policy\.)?\w+/)?.[0])
  t.same([...new Set(shown)].sort(), [...fields, ...keys].sort())
})

t.test('a policy that is loaded into the cards and saved is the same policy', async t => {
  const rollout = { then: '10', maxFailures: 2, maxUnreachable: '10%', onFailure: 'revert_wave', order: 'zone' }
  const policies = [
    full,
    {},
    { drift: 'off' },
    { rollout: { ...rollout, canary: 3, pause: 60 } },
    { rollout: { pause: 'approve', onFailure: 'revert_all' } },
    { rollout: { pause: 0 } },
    { approval: { count: 1, roles: ['deployer'] } },
    { signatures: { require: 'warn' } },
    { signatures: { sbom: 'require' } },
    { onPostFailure: 'revert', confirm: { seconds: 10 } },
    { windows: { allow: [], freeze: full.windows.freeze, tz: 'UTC' } }
  ]
  for (const policy of policies) {
    const stored = storedPolicy(policy, 'policy')
    t.same(storedPolicy(sentOf(policyDraft(stored)).policy, 'policy'), stored)
  }
})

t.test('empty texts restore defaults, and a changed kind drops the fields of the other kind', async t => {
  const { policy, ...fields } = sentOf(policyDraft({}))
  t.same(policy, Object.fromEntries(Object.keys(policyKeys).map(key => [key, null])))
  t.match(fields, { description: '', tagIds: [], allowedEnv: [], maxDiskMb: null, allowClientScripts: null })
  t.notOk('env' in fields, 'an empty environment is the one that there is')
  const loaded = policyDraft(storedPolicy(full, 'policy'))
  const checks = loaded.checks.slice(0, 1).map(check => ({
    ...check,
    texts: { ...check.texts, kind: 'tcp', tcp: 'localhost:80' }
  }))
  t.match(sentOf({ ...loaded, checks }).policy, { gate: { after: [{ tcp: 'localhost:80' }] } })
})

t.test('a card sends its own fields only', async t => {
  const draft = policyDraft(storedPolicy(full, 'policy'))
  t.same(Object.keys(fieldsOf(givenOf('fleet', draft))), ['policy'])
  t.same(Object.keys(givenOf('fleet', draft)), ['policy.rollout'])
  t.notOk('policy.drift' in givenOf('safety', draft))
  t.match(givenOf('safety', changed(policyDraft({}), '#approval', 'needed')), { 'policy.approval': {} })
  t.same(givenOf('fleet', changed(policyDraft({}), '#pause', 'approve')), { 'policy.rollout': { pause: 'approve' } })
})

t.test('another way to succeed fills in what it needs, and loses nothing that was typed', async t => {
  const empty = policyDraft({})
  const checked = changed(empty, '#safety', 'check')
  t.match(checked, { checks: [{ texts: { kind: 'http' } }], texts: { 'policy.onPostFailure': 'revert' } })
  const confirmed = changed(empty, '#safety', 'confirm')
  t.match(sentOf(confirmed).policy, { confirm: { seconds: 600 }, gate: null, onPostFailure: 'revert' })
  const loaded = policyDraft(storedPolicy(full, 'policy'))
  const plain = changed(loaded, '#safety', '')
  t.match(sentOf(plain).policy, { confirm: null, gate: null, onPostFailure: null })
  t.same(sentOf(changed(plain, '#safety', 'confirm')).policy, sentOf(loaded).policy)
})

t.test('the server refuses what is incomplete at its field', async t => {
  const empty = policyDraft({})
  const cases: Array<[draft: Draft, field: string]> = [
    [changed(empty, '#safety', 'check'), 'policy.gate.after[0].http'],
    [changed(changed(empty, '#safety', 'confirm'), 'policy.confirm.seconds', ''), 'policy.confirm.seconds'],
    [added(empty, 'allow'), 'policy.windows.allow[0].days'],
    [changed(added(empty, 'freeze'), 'policy.windows.tz', 'Nowhere'), 'policy.windows.freeze[0].from'],
    [changed(empty, '#source', 'only'), 'policy.promoteFrom.projectId'],
    [changed(changed(empty, '#pause', 'seconds'), 'policy.rollout.pause', 'soon'), 'policy.rollout.pause']
  ]
  for (const [draft, field] of cases)
    t.throws(() => givenPolicy(sentOf(draft).policy, 'policy'), { code: 'invalid_field', field })
})
