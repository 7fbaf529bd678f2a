import t from 'tap'
import { readNodeHead, readTerminalLine } from '../../../lib/fleet/relay/node-answer.js'

const asked = { method: 'GET', path: 'projects/proj_a/download?path=x', headers: {} } as const
const json = { 'content-type': 'application/json' }
const headOf = (head: unknown, more: object = {}) =>
  readNodeHead(Buffer.from(`${typeof head === 'string' ? head : JSON.stringify(head)}\nbody`), { ...asked, ...more })
const file = (headers: object, more: object = {}) => headOf({ status: 200, headers }, more).head.headers

t.test('types that a page reads pass; everything else is a download', async t => {
  const passing = [
    ['application/json', 'application/json; charset=utf-8', false],
    ['Application/JSON; charset=utf-7', 'application/json; charset=utf-8', false],
    ['application/x-ndjson', 'application/x-ndjson', true],
    ['text/event-stream; x=y', 'text/event-stream; charset=utf-8', true]
  ] as const
  for (const [given, wanted, isLasting] of passing) {
    const { head, rest } = headOf({ status: 200, headers: { 'content-type': given } })
    t.match(head, { status: 200, isLasting, headers: { 'content-type': wanted, 'cache-control': 'no-store' } }, given)
    t.equal(head.headers['content-disposition'], undefined)
    t.equal(rest.toString(), 'body')
  }
  const others = ['text/html', 'image/svg+xml', 'text/xml', 'application/xhtml+xml', 'application/pdf', 'text/plain']
  for (const type of [...others, 'application/json, text/html', 'application/jsonp', '__proto__', '', undefined]) {
    const headers = file(type === undefined ? {} : { 'content-type': type })
    t.equal(headers['content-type'], 'application/octet-stream', `${type}`)
    t.equal(headers['content-disposition'], 'attachment; filename="download"', `${type}`)
  }
})

t.test('a download keeps its name, not its path', async t => {
  const names = [
    ['attachment; filename="a b.zip"', 'attachment; filename="a b.zip"'],
    ['inline; filename="a.html"', 'attachment; filename="a.html"'],
    ['attachment; filename="../../x.sh"', 'attachment; filename="x.sh"'],
    ['attachment; filename="C:\\dir\\x.exe"', 'attachment; filename="x.exe"'],
    ['attachment; filename=".."', 'attachment; filename="download"'],
    [
      "attachment; filename*=UTF-8''na%C3%AFve.zip",
      `attachment; filename="na_ve.zip"; filename*=UTF-8''na%C3%AFve.zip`
    ],
    ["attachment; filename*=UTF-8''a%0d%0aset-cookie%3a%20b", 'attachment; filename="aset-cookie: b"'],
    ['nonsense; =', 'attachment; filename="download"'],
    [`attachment; filename="${'x'.repeat(1000)}"`, `attachment; filename="${'x'.repeat(200)}"`]
  ]
  for (const [given = '', wanted] of names)
    t.equal(file({ 'content-type': 'text/html', 'content-disposition': given })['content-disposition'], wanted, given)
  const ofJson = file({ ...json, 'content-disposition': 'attachment; filename="package.json"' })
  t.match(ofJson, { 'content-disposition': 'attachment; filename="package.json"' }, 'a file with JSON stays one')
})

t.test('only headers of the list pass, in the form that they have', async t => {
  const good = {
    'accept-ranges': 'bytes',
    etag: 'W/"abc-1"',
    'last-modified': 'Thu, 26 Nov 2026 19:00:00 GMT',
    'retry-after': '5',
    'x-svc-output-from': '0',
    'x-svc-output-to': '12',
    'x-total-count': '3'
  }
  t.match(file({ ...json, ...good }), good)
  const bad = {
    'access-control-allow-origin': '*',
    'clear-site-data': '"*"',
    'content-encoding': 'gzip',
    'content-length': '1',
    'content-security-policy': "default-src *; script-src 'unsafe-inline'",
    'cross-origin-resource-policy': 'cross-origin',
    link: '</x>; rel=preload',
    location: 'https://other.example',
    refresh: '0; url=https://other.example',
    'service-worker-allowed': '/',
    'set-cookie': 'svc_session=x',
    'transfer-encoding': 'chunked',
    'www-authenticate': 'Basic',
    etag: '"a"\r\nset-cookie: b',
    'retry-after': '-1',
    'x-total-count': ['1'],
    'last-modified': 'now'
  }
  t.strictSame(Object.keys(file({ ...json, ...bad })).sort(), ['cache-control', 'content-type', 'x-accel-buffering'])
})

t.test('a head that no page of svc has is refused', async t => {
  const cases: Record<string, unknown> = {
    'no JSON': '<html>',
    'an array': '[]',
    null: 'null',
    'no status': { headers: json },
    'no headers': { status: 200 },
    'headers in a list': { status: 200, headers: [] },
    'a status as text': { status: '200', headers: json },
    'an error in HTML': { status: 404, headers: { 'content-type': 'text/html' } },
    'a part nobody asked for': { status: 206, headers: { 'content-range': 'bytes 0-1/2' } },
    'an unchanged page nobody has': { status: 304, headers: json }
  }
  const statuses = [NaN, 0, -1, 1e9, 99, 100, 101, 103, 199, 200.5, 201, 204, 299, 301, 302, 307, 308, 401, 407, 418]
  for (const status of [...statuses, 426, 451, 500, 501, 505, 511, 599, 600, 999])
    cases[`status ${status}`] = { status, headers: json }
  for (const [what, head] of Object.entries(cases))
    t.throws(() => headOf(head), { message: /^Cannot pass on the answer of the node: / }, what)
  t.throws(() => headOf({ status: 206, headers: {} }, { headers: { range: 'bytes=0-1' } }), /which part/)
  t.throws(() => headOf({ status: 200, headers: json, more: 'x'.repeat(20_000) }), /too long/)
  t.throws(() => readNodeHead(Buffer.from('{"status":200,"headers":{}}'), asked), /incomplete/)
  t.throws(() => readNodeHead(Buffer.alloc(0), asked), /incomplete/)
  t.equal(headOf({ status: 304, headers: json }, { headers: { 'if-none-match': '"a"' } }).head.status, 304)
})

t.test('only messages of a terminal pass', async t => {
  const passing = [
    { type: 'data', data: 'x' },
    { type: 'exit', exitCode: null, signal: 'SIGTERM' },
    { type: 'pong', ts: 1 },
    { type: 'error', reason: 'idle', message: 'Closed' }
  ]
  for (const message of passing) {
    const line = JSON.stringify({ ...message, html: '<script>', __proto__: 1 })
    t.strictSame(readTerminalLine(line), { message: JSON.stringify(message) })
  }
  t.strictSame(readTerminalLine('{"type":"close","code":4404,"reason":"Gone"}'), { code: 4404, reason: 'Gone' })
  t.strictSame(readTerminalLine('{"type":"refused","error":"No shell"}'), { code: 1011, reason: 'No shell' })
  const bad = ['', 'x', '[]', 'null', '1', '{"type":"data","data":1}', '{"type":"exit"}', '{"type":"html"}']
  const closes = [1005, 1006, 1015, 0, 65_536, 3000, 1e99, '1000', null].map(
    code => `{"type":"close","code":${JSON.stringify(code)},"reason":""}`
  )
  for (const line of [...bad, '{"type":"__proto__"}', '{"type":"constructor"}', ...closes])
    t.throws(() => readTerminalLine(line), { message: /^Cannot pass on/ }, line)
})
