import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { Refusal, type RefusalKind } from '../../../lib/base/refusal.js'
import { compressed, mergeHeaders, refusalReply, wholeReply } from '../../../lib/http/core/reply.js'

t.test('has a status for each kind of refusal', async t => {
  const statuses: Record<RefusalKind, number> = {
    invalid: 400,
    usage: 400,
    unauthorized: 401,
    forbidden: 403,
    not_found: 404,
    method: 405,
    timed_out: 408,
    conflict: 409,
    precondition: 412,
    too_large: 413,
    unsupported_type: 415,
    misdirected: 421,
    upgrade: 426,
    too_many: 429,
    unsupported: 501,
    bad_gateway: 502,
    unavailable: 503
  }
  for (const [kind, status] of Object.entries(statuses)) {
    const reply = refusalReply(new Refusal(kind as RefusalKind, 'code', 'A sentence', { field: 'name' }))
    t.equal(reply.status, status, kind)
    t.same(reply.body, { success: false, error: 'A sentence', message: 'A sentence', code: 'code', field: 'name' })
  }
})

t.test('does not reveal the cause of a refusal', async t => {
  const reply = refusalReply(new Refusal('invalid', 'c', 's', { cause: new Error('secret') }))
  t.notMatch(wholeReply(reply).body, /secret/)
})

t.test('sends lengths', async t => {
  t.equal(wholeReply({ kind: 'json', status: 200, body: 'é' }).headers['content-length'], '4')
  t.equal(wholeReply({ kind: 'empty', status: 200 }).headers['content-length'], '0')
  t.equal(wholeReply({ kind: 'empty', status: 204 }).headers['content-length'], undefined)
  t.equal(wholeReply({ kind: 'empty', status: 304 }).headers['content-length'], undefined)
})

t.test('prefers headers to defaults without regard to case', async t => {
  t.same(mergeHeaders({ 'cache-control': 'no-store', a: '1' }, { 'Cache-Control': 'no-cache' }), {
    'cache-control': 'no-cache',
    a: '1'
  })
})

t.test('declares a compressed answer', async t => {
  const body = JSON.stringify('é'.repeat(2000))
  const whole = await compressed({ status: 201, headers: { 'x-a': 'b', 'content-length': '1' }, body })
  t.match(whole, {
    status: 201,
    headers: { 'x-a': 'b', 'content-encoding': 'gzip', 'content-length': String(whole.body.length) }
  })
  t.equal(gunzipSync(whole.body as Uint8Array).toString(), body)
})
