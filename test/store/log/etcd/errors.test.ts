import t from 'tap'
import { type EtcdError, errorOf, Unreachable } from '../../../../lib/store/log/etcd/errors.js'

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
