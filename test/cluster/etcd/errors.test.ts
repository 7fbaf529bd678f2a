import t from 'tap'
import {
  errorOf,
  EtcdError,
  explainEtcd,
  noLeader,
  notLeader,
  problemOf,
  refusalOf,
  Unreachable
} from '../../../lib/cluster/etcd/errors.js'
import { Refusal } from '../../../lib/base/errors.js'
import {
  DamagedLog,
  DivergedLog,
  LostLeadership,
  LostLine,
  OlderLog,
  UnknownOutcome
} from '../../../lib/core/store/redo.js'

/** Answers of Debian's etcd 3.4 and of 3.5. */
const cases: Array<[status: number, text: string, is: Partial<Record<keyof EtcdError, unknown>>]> = [
  [503, '{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}', { isPassing: true }],
  [503, '{"error":"etcdserver: request timed out","code":14}', { isPassing: true, isFull: false }],
  [504, '{"message":"context deadline exceeded","code":4}', { isPassing: true }],
  [429, '{"message":"etcdserver: too many requests","code":8}', { isPassing: true, isFull: false }],
  [429, '{"message":"etcdserver: mvcc: database space exceeded","code":8}', { isPassing: false, isFull: true }],
  [401, '{"message":"etcdserver: invalid auth token","code":16}', { isTokenRefused: true, isPassing: false }],
  [400, '{"message":"etcdserver: revision of auth store is old","code":3}', { isTokenRefused: true }],
  [400, '{"message":"etcdserver: user name is empty","code":3}', { isTokenRefused: true }],
  [400, '{"message":"etcdserver: request is too large","code":3}', { isTokenRefused: false, isPassing: false }],
  [400, '{"message":"etcdserver: mvcc: required revision has been compacted","code":11}', { isCompacted: true }],
  [404, '{"message":"etcdserver: requested lease not found","code":5}', { isNotFound: true }],
  [502, '<html>Bad gateway</html>', { isPassing: true }]
]
for (const [status, text, is] of cases)
  t.test(`understands ${status} ${text}`, async t => t.match(errorOf(status, text), is))

t.test('says what failed', async t => {
  t.equal(errorOf(503, '{"message":"etcdserver: no leader","code":14}').message, 'etcd: no leader')
  t.equal(new Unreachable(3, new Error('refused')).message, 'None of the 3 members of etcd answers: refused')
  t.equal(new Unreachable(1, null).message, 'etcd does not answer')
})

const expired = Object.assign(new Error('certificate has expired'), { code: 'CERT_HAS_EXPIRED' })
const problems: Array<[what: string, error: unknown, reason: string, passes: boolean]> = [
  ['etcd does not answer', new Unreachable(3, new Error('connection refused')), 'log_unreadable', true],
  ['etcd has no leader', new EtcdError(14, 'etcdserver: no leader'), 'log_unreadable', true],
  ['another hub gives no image now', new Refusal('unavailable', 'image', '', { retryAfterSeconds: 3 }), 'image', true],
  ['the certificate of etcd has expired', new Unreachable(1, expired), 'log_unreadable', false],
  ['etcd refuses the user', new EtcdError(7, 'etcdserver: permission denied'), 'log_unreadable', false],
  ['a value is damaged', new DamagedLog('/svc/x/log/1', 'too short'), 'log_damaged', false],
  ['the log is older', new OlderLog(9, 4), 'log_older', false],
  ['the log has other lines', new DivergedLog(4), 'log_diverged', false],
  ['an older svc', new Refusal('unsupported', 'database_newer', 'Install the newer svc'), 'database_newer', false]
]
for (const [what, error, reason, passes] of problems)
  t.test(`${passes ? 'passes' : 'lasts'}: ${what}`, async t => t.match(problemOf(error), { reason, passes }))

const refusals: Array<[error: Error, code: string, endsTerm: boolean]> = [
  [new LostLeadership(), 'no_leader', true],
  [new LostLine('/svc/x/log/1'), 'no_leader', true],
  [new UnknownOutcome(new Error('late')), 'write_unknown', true],
  [new Unreachable(3, null), 'no_leader', true],
  [new EtcdError(8, 'etcdserver: mvcc: database space exceeded'), 'disk_full', false],
  [new Error('anything else'), 'write_failed', true]
]
for (const [error, code, endsTerm] of refusals) {
  t.test(`a write is refused with ${code} after: ${error.message}`, async t => {
    const found = refusalOf(error)
    t.match(found, { endsTerm, refusal: { kind: 'unavailable', code, cause: error } })
  })
}

t.test('clients are told when to try again', async t => {
  t.match(notLeader({ name: 'h1', url: 'https://h1' }), { code: 'not_leader', retryAfterSeconds: 1 })
  t.match(noLeader({ problem: null }), { code: 'no_leader', retryAfterSeconds: 3 })
  const lasting = noLeader({ problem: 'etcd was restored' })
  t.match(lasting, { code: 'no_leader', retryAfterSeconds: undefined, message: /etcd was restored$/ })
  const passing = noLeader({ problem: 'etcd does not answer', passes: true })
  t.match(passing, { message: /etcd does not answer$/, retryAfterSeconds: 3 })
  t.equal(refusalOf(new LostLine('x')).refusal.retryAfterSeconds, undefined)
  const refused = new Unreachable(1, Object.assign(new Error('certificate has expired'), { code: 'CERT_HAS_EXPIRED' }))
  t.match(refusalOf(refused).refusal, { message: /certificate has expired$/, retryAfterSeconds: undefined })
  t.match(explainEtcd(refused, 'Cannot join'), { code: 'no_leader', retryAfterSeconds: undefined })
  t.match(explainEtcd(new Unreachable(1, null), 'Cannot join'), { code: 'no_leader', retryAfterSeconds: 3 })
})
