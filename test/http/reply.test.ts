import t from 'tap'
import { Refusal } from '../../lib/base/refusal.js'
import type { RefusalKind } from '../../lib/base/refusal.js'
import { mergeHeaders, refusalReply, wholeReply } from '../../lib/http/reply.js'

t.test('each kind of refusal has its status', async t => {
  const statuses: Record<RefusalKind, number> = {
    invalid: 400, usage: 400, unauthorized: 401, forbidden: 403, not_found: 404, method: 405, timed_out: 408, conflict: 409, precondition: 412,
    too_large: 413, unsupported_type: 415, misdirected: 421, upgrade: 426, too_many: 429, unsupported: 501, unavailable: 503
  }
  for (const [kind, status] of Object.entries(statuses)) {
    const reply = refusalReply(new Refusal(kind as RefusalKind, 'code', 'A sentence', { field: 'name' }))
    t.equal(reply.status, status, kind)
    t.same(reply.body, { success: false, error: 'A sentence', message: 'A sentence', code: 'code', field: 'name' })
  }
})

t.test('the cause of a refusal stays inside', async t => {
  const reply = refusalReply(new Refusal('invalid', 'c', 's', { cause: new Error('secret') }))
  t.notMatch(wholeReply(reply).body, /secret/)
})

t.test('lengths', async t => {
  t.equal(wholeReply({ kind: 'json', status: 200, body: 'é' }).headers['content-length'], '4')
  t.equal(wholeReply({ kind: 'empty', status: 200 }).headers['content-length'], '0')
  t.equal(wholeReply({ kind: 'empty', status: 204 }).headers['content-length'], undefined)
  t.equal(wholeReply({ kind: 'empty', status: 304 }).headers['content-length'], undefined)
})

t.test('headers win over defaults without regard to case', async t => {
  t.same(mergeHeaders({ 'cache-control': 'no-store', a: '1' }, { 'Cache-Control': 'no-cache' }), { 'cache-control': 'no-cache', a: '1' })
})
