import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { commonHeaders, pageTypes, readAnswerHead, type AnswerRules } from '../../../lib/http/outgoing/answer-head.js'

const rules: AnswerRules = {
  statuses: new Set([200, 204, 206, 304, 404, 416]),
  types: pageTypes,
  fileTypes: /^image\/png$/,
  headers: commonHeaders,
  refuse: why => new Refusal('bad_gateway', 'test', why)
}
const read = (status: number, headers: Record<string, unknown>, asked: Record<string, unknown> = {}) =>
  readAnswerHead({ status, headers }, { path: '/files/a%20b.txt?x=/y', headers: asked }, rules)

t.test('a page reads JSON and streams; everything else is a download', async t => {
  t.strictSame(read(200, { 'content-type': 'application/json', 'x-other': '1' }).headers, {
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'content-type': 'application/json; charset=utf-8'
  })
  t.match(read(200, { 'content-type': 'text/event-stream' }), { isLasting: true, isFile: false })
  for (const type of ['text/html', 'image/svg+xml', 'application/javascript', '', '__proto__', ['application/json']]) {
    const head = read(200, { 'content-type': type, 'content-disposition': 'inline; filename="../x.html"' })
    t.match(head, { isFile: true, headers: { 'content-type': 'application/octet-stream' } }, String(type))
    t.equal(head.headers['content-disposition'], 'attachment; filename="x.html"', String(type))
  }
  const picture = read(200, { 'content-type': 'image/png; x=y' })
  t.match(picture, { isFile: true, headers: { 'content-type': 'image/png', 'cache-control': 'private, no-cache' } })
  t.equal(picture.headers['content-disposition'], `attachment; filename="a_20b.txt"; filename*=UTF-8''a%2520b.txt`)
})

t.test('what was not asked for is refused', async t => {
  const part = { 'content-type': 'application/json', 'content-range': 'bytes 0-1/9' }
  t.equal(read(206, part, { range: 'bytes=0-1' }).headers['content-range'], 'bytes 0-1/9')
  for (const [status, headers, asked] of [
    [302, { location: 'https://evil.test/' }, {}],
    [206, part, {}],
    [206, { 'content-type': 'application/json' }, { range: 'bytes=0-1' }],
    [304, {}, {}],
    [416, {}, {}],
    [404, { 'content-type': 'text/html' }, {}]
  ] as const) {
    t.throws(() => read(status, headers, asked), { code: 'test' }, String(status))
  }
  t.equal(
    read(304, { etag: '"x"', 'content-type': 'text/html' }, { 'if-none-match': '"x"' }).headers['content-type'],
    undefined
  )
  t.equal(read(204, {}).headers['content-disposition'], undefined)
})
