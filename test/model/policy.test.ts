import t from 'tap'
import { givenPolicy } from '../../lib/model/policy-keys.js'
import {
  changePolicy,
  confirmSecondsFault,
  defaultGate,
  defaultPolicy,
  gateFault,
  isExpression,
  logExpression,
  parsePlace,
  parseStatuses,
  policyOf,
  titlesOfChecks
} from '../../lib/model/policy.js'

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

const faultOf = (...after: unknown[]) => gateFault({ ...defaultGate, after })

t.test('accepts every form of check', async t => {
  const http = 'http://127.0.0.1:3000/up'
  for (const check of [
    { http },
    { http, status: '200-299,304', contains: 'ok', header: { 'x-release': '${SVC_DEPLOY_ID}' } },
    { http: 'https://[::1]/' },
    { tcp: '127.0.0.1:5432' },
    { tcp: '[::1]:5432' },
    { tcp: 'localhost:80' },
    { command: 'node check.js' },
    { command: 'a\nb', timeout: 20 },
    { pm2: 'online' },
    { log: 'lsrc_a', none: '(?i)panic|uncaught', for: 30 }
  ]) {
    t.equal(faultOf(check), null, JSON.stringify(check))
  }
  t.equal(faultOf(), null, 'no checks')
})

t.test('names the field of a check that is not usable', async t => {
  const cases: Array<[check: unknown, field: string]> = [
    [null, ''],
    ['http://127.0.0.1', ''],
    [{}, ''],
    [{ ping: 'a' }, ''],
    [{ http: 'ftp://a' }, '.http'],
    [{ http: 'a b' }, '.http'],
    [{ http: 'http://user:secret@127.0.0.1/' }, '.http'],
    [{ http: 'http://a', status: '600' }, '.status'],
    [{ http: 'http://a', status: '299-200' }, '.status'],
    [{ http: 'http://a', contains: '' }, '.contains'],
    [{ http: 'http://a', header: { 'a b': 'c' } }, '.header'],
    [{ http: 'http://a', header: { a: 'b\r\nc: d' } }, '.header'],
    [{ http: 'http://a', follow: true }, '.follow'],
    [{ tcp: '127.0.0.1' }, '.tcp'],
    [{ tcp: '127.0.0.1:0' }, '.tcp'],
    [{ tcp: '::1:80' }, '.tcp'],
    [{ command: ' ' }, '.command'],
    [{ command: 'a', timeout: 601 }, '.timeout'],
    [{ pm2: 'stopped' }, '.pm2'],
    [{ log: 'lsrc_a', none: '(', for: 1 }, '.none'],
    [{ log: 'lsrc_a', none: 'a' }, '.for']
  ]
  for (const [check, field] of cases) {
    const fault = faultOf({ tcp: 'a:1' }, check)
    t.equal(fault?.field, `after.1${field}`, JSON.stringify(check))
    t.match(fault?.reason, /^[a-z]/)
  }
})

t.test('names the field of a gate that is not usable', async t => {
  t.equal(gateFault(null)?.field, '')
  t.equal(gateFault({ ...defaultGate })?.field, 'after')
  t.match(faultOf(...Array(11).fill({ tcp: 'a:1' })), { field: 'after', reason: /at most 10/ })
  const wrong = { interval: 0, timeout: 61, deadline: 601, successes: 1.5, stableFor: -1, onFailure: 'panic', more: 1 }
  for (const [key, value] of Object.entries(wrong)) {
    t.equal(gateFault({ ...defaultGate, after: [], [key]: value })?.field, key, key)
  }
})

t.test('a key that no check has is refused by its name, and the nearest one is named', async t => {
  for (const key of ['__proto__', 'toString', 'constructor', 'hasOwnProperty', 'valueOf', 'tcpp']) {
    const check = JSON.parse(`{"tcp": "127.0.0.1:1", "${key}": 1}`)
    const meant = key === 'tcpp' ? ' Did you mean "tcp"?' : ''
    t.match(
      faultOf(check),
      { field: `after.0.${key}`, reason: new RegExp(`no such key${meant && '\\.'}${meant.replace('?', '\\?')}$`) },
      key
    )
  }
  const after: unknown[] = []
  t.match(gateFault({ ...defaultGate, after, intervall: 2 }), {
    field: 'intervall',
    reason: /Did you mean "interval"\?/
  })
  const policy = { approvl: null }
  t.throws(() => givenPolicy(policy, 'policy'), { field: 'policy.approvl', message: /Did you mean "approval"\?$/ })
})

t.test('limits the time to confirm', async t => {
  t.equal(confirmSecondsFault(10), null)
  t.equal(confirmSecondsFault(86_400), null)
  for (const seconds of [9, 86_401, 10.5, '90', null, NaN]) {
    t.ok(confirmSecondsFault(seconds), String(seconds))
    t.type(confirmSecondsFault(seconds), 'string')
    t.throws(() => givenPolicy({ confirm: { seconds } }, 'policy'), {
      code: 'invalid_field',
      field: 'policy.confirm.seconds'
    })
  }
  t.throws(() => givenPolicy({ confirm: 90 }, 'policy'), { code: 'invalid_field', field: 'policy.confirm' })
  t.throws(() => givenPolicy({ confirm: { seconds: 90, by: 'other' } }, 'policy'), {
    code: 'invalid_field',
    field: 'policy.confirm.by'
  })
})

t.test('parses places, statuses and patterns', async t => {
  t.strictSame(parsePlace('[::1]:80'), { host: '[::1]', port: 80 })
  t.equal(parsePlace('a:65536'), null)
  t.strictSame(parseStatuses('200-299, 304'), [
    { from: 200, to: 299 },
    { from: 304, to: 304 }
  ])
  t.strictSame(logExpression('(?i)PANIC'), { source: 'PANIC', flags: 'iu' })
  t.strictSame(logExpression('PANIC'), { source: 'PANIC', flags: 'u' })
  t.notOk(isExpression(logExpression('(?i)PANIC(')))
})

t.test('names a check', async t => {
  t.same(
    titlesOfChecks([
      { http: 'http://a/up' },
      { tcp: 'a:1' },
      { command: 'mysql -psecret' },
      { pm2: 'online' },
      { log: 'lsrc_a', none: 'b', for: 1 }
    ]),
    ['http://a/up', 'tcp a:1', 'command', 'pm2 online', 'log lsrc_a']
  )
  const command = { command: 'a' }
  t.same(titlesOfChecks([command, { tcp: 'a:1' }, { command: 'b' }]), ['command 1', 'tcp a:1', 'command 2'])
})
