import t from 'tap'
import { gunzipSync } from 'node:zlib'
import { Refusal, type RefusalKind } from '../../../lib/base/errors.js'
import {
  chooseCoding,
  compressed,
  expectedTags,
  mergeHeaders,
  refusalReply,
  wantedPart,
  wantsGzip,
  wholeReply
} from '../../../lib/http/core/reply.js'

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

t.test('does not make JSON that a reply brings', async t => {
  const unmade = { toJSON: () => t.fail('it is made again') }
  const { body, headers } = wholeReply({ kind: 'json', status: 200, body: unmade, text: '"é"' })
  t.strictSame([body, headers['content-length']], ['"é"', '4'])
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

t.test('chooses the best accepted coding', async t => {
  const cases: Array<[string | undefined, string]> = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['GZIP ; q=0.5', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['x-gzip', 'identity'],
    ['identity', 'identity']
  ]
  for (const [accept, coding] of cases) t.equal(chooseCoding(accept), coding, String(accept))
})

t.test('compresses answers that are worth it', async t => {
  t.equal(wantsGzip({ 'accept-encoding': 'gzip' }, 1023), false)
  t.equal(wantsGzip({ 'accept-encoding': 'gzip' }, 1024), true)
  t.equal(wantsGzip({ 'accept-encoding': 'br' }, 5000), false, 'brotli is too slow for changing answers')
  t.equal(wantsGzip({}, 5000), false)
  t.equal(wantsGzip({ 'accept-encoding': 'gzip' }, 5 * 1024 * 1024), false)
})

t.test('compresses an answer to a request with a cookie only if the panel asked', async t => {
  const asked = (headers: Record<string, string>) => wantsGzip({ 'accept-encoding': 'gzip', ...headers }, 5000)
  t.equal(asked({ cookie: 'a=b' }), false, 'a page of another port may have caused it')
  t.equal(asked({ cookie: 'a=b', 'sec-fetch-site': 'same-site' }), false)
  t.equal(asked({ cookie: 'a=b', 'sec-fetch-site': 'none' }), false)
  t.equal(asked({ cookie: 'a=b', 'sec-fetch-site': 'same-origin' }), true)
  t.equal(asked({ cookie: 'a=b', 'x-svc-panel': '1' }), true)
  t.equal(asked({ cookie: 'a=b', authorization: 'Bearer x' }), true)
})

const file = { etag: '"abc"', modifiedMs: Date.parse('2026-01-02T03:04:05.678Z'), bytes: 100 }
const date = 'Fri, 02 Jan 2026 03:04:05 GMT'
const earlier = 'Fri, 02 Jan 2026 03:04:04 GMT'

const cases: Array<[headers: Record<string, string>, wanted: string]> = [
  [{}, 'all'],
  [{ 'if-none-match': '"abc"' }, 'unchanged'],
  [{ 'if-none-match': 'W/"abc"' }, 'unchanged'],
  [{ 'if-none-match': '"x", "abc"' }, 'unchanged'],
  [{ 'if-none-match': '*' }, 'unchanged'],
  [{ 'if-none-match': '"x"' }, 'all'],
  [{ 'if-none-match': '"x"', 'if-modified-since': date }, 'all'],
  [{ 'if-modified-since': date }, 'unchanged'],
  [{ 'if-modified-since': earlier }, 'all'],
  [{ 'if-modified-since': 'garbage' }, 'all'],
  [{ range: 'bytes=0-9' }, '0-9'],
  [{ range: 'bytes=90-' }, '90-99'],
  [{ range: 'bytes=-10' }, '90-99'],
  [{ range: 'bytes=-1000' }, '0-99'],
  [{ range: 'bytes=50-1000' }, '50-99'],
  [{ range: 'bytes=99-99' }, '99-99'],
  [{ range: 'bytes=100-' }, 'unsatisfiable'],
  [{ range: 'bytes=-0' }, 'unsatisfiable'],
  [{ range: 'bytes=9-1' }, 'all'],
  [{ range: 'bytes=-' }, 'all'],
  [{ range: 'bytes=0-1,5-6' }, 'all'],
  [{ range: 'lines=0-1' }, 'all'],
  [{ range: 'bytes=0-9', 'if-none-match': '"abc"' }, 'unchanged'],
  [{ range: 'bytes=0-9', 'if-range': '"abc"' }, '0-9'],
  [{ range: 'bytes=0-9', 'if-range': '"x"' }, 'all'],
  [{ range: 'bytes=0-9', 'if-range': 'W/"abc"' }, 'all'],
  [{ range: 'bytes=0-9', 'if-range': date }, '0-9'],
  [{ range: 'bytes=0-9', 'if-range': earlier }, 'all']
]

for (const [headers, expected] of cases) {
  t.test(JSON.stringify(headers), async t => {
    const wanted = wantedPart(headers, file)
    t.equal(wanted.outcome === 'part' ? `${wanted.from}-${wanted.to}` : wanted.outcome, expected)
  })
}

t.test('has no ranges in an empty file', async t => {
  t.equal(wantedPart({ range: 'bytes=0-' }, { ...file, bytes: 0 }).outcome, 'unsatisfiable')
})

t.test('reads the expected states from If-Match', async t => {
  for (const [given, expected] of [
    [undefined, undefined],
    ['*', undefined],
    ['"a"', ['a']],
    [' W/"a" , "b"', ['a', 'b']],
    ['a', ['a']],
    ['', ['']]
  ] as const) {
    t.same(expectedTags(given === undefined ? {} : { 'if-match': given }), expected, String(given))
  }
})
