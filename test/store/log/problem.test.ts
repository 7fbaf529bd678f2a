import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { EtcdError, Unreachable } from '../../../lib/store/log/etcd/errors.js'
import { problemOf } from '../../../lib/store/log/problem.js'
import { DamagedLog, DivergedLog, OlderLog } from '../../../lib/store/log/redo-log.js'

const expired = Object.assign(new Error('certificate has expired'), { code: 'CERT_HAS_EXPIRED' })
const cases: Array<[what: string, error: unknown, reason: string, passes: boolean]> = [
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
for (const [what, error, reason, passes] of cases)
  t.test(`${passes ? 'passes' : 'lasts'}: ${what}`, async t => t.match(problemOf(error), { reason, passes }))
