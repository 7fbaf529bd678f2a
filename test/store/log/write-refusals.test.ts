import t from 'tap'
import { EtcdError, explainEtcd, Unreachable } from '../../../lib/store/log/etcd/errors.js'
import { LostLeadership, LostLine, UnknownOutcome } from '../../../lib/store/log/redo-log.js'
import { noLeader, notLeader, refusalOf } from '../../../lib/store/log/write-refusals.js'

const cases: Array<[error: Error, code: string, endsTerm: boolean]> = [
  [new LostLeadership(), 'no_leader', true],
  [new LostLine('/svc/x/log/1'), 'no_leader', true],
  [new UnknownOutcome(new Error('late')), 'write_unknown', true],
  [new Unreachable(3, null), 'no_leader', true],
  [new EtcdError(8, 'etcdserver: mvcc: database space exceeded'), 'disk_full', false],
  [new Error('anything else'), 'write_failed', true]
]
for (const [error, code, endsTerm] of cases) {
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
