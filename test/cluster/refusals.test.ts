import t from 'tap'
import { EtcdError, Unreachable } from '../../lib/cluster/etcd/connection.js'
import { explainEtcd, noLeader, notLeader, problemOf, refusalOf } from '../../lib/cluster/refusals.js'
import { Refusal } from '../../lib/base/errors.js'
import {
  DamagedLog,
  DivergedLog,
  LostLeadership,
  LostLine,
  OlderLog,
  UnknownOutcome
} from '../../lib/core/store/redo.js'

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
