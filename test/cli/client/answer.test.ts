import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import {
  isUnknownRoute,
  missingRoute,
  notSvc,
  parseJson,
  readText,
  refusalOf,
  type Answer,
  readEvents,
  readNdjson
} from '../../../lib/cli/client/answer.js'

function answerOf(statusCode: number, body: string | Buffer = '', headers: Record<string, string> = {}) {
  const socket = {
    isDestroyed: false,
    destroy: () => {
      socket.isDestroyed = true
    }
  }
  const answer = Object.assign(new PassThrough(), { statusCode, headers, socket })
  answer.end(body)
  return { answer: answer as unknown as Answer, socket }
}

const asked = { address: 'https://a.test', tokenFrom: null }
const json = JSON.stringify({ error: 'It cannot be', code: 'not_so' })

t.test("an svc server's own sentence is shown", async t => {
  const { answer, socket } = answerOf(409, json)
  t.match(await refusalOf(answer, asked), { kind: 'conflict', code: 'not_so', message: 'It cannot be' })
  t.ok(socket.isDestroyed)
  t.match(await refusalOf(answerOf(418, JSON.stringify({ error: 'Tea' })).answer, asked), {
    kind: 'unavailable',
    code: 'http_418',
    message: 'Tea'
  })
  const [without, late] = await Promise.all(
    ([{}, { 'retry-after': '7' }] as Array<Record<string, string>>).map(headers =>
      refusalOf(answerOf(429, json, headers).answer, asked)
    )
  )
  t.equal(without?.retryAfterSeconds, undefined)
  t.equal(late?.retryAfterSeconds, 7)
})

t.test('names the source of a refused token', async t => {
  const from = { ...asked, tokenFrom: 'SVC_TOKEN' }
  t.equal((await refusalOf(answerOf(401, json).answer, from)).message, 'It cannot be (the token came from SVC_TOKEN)')
  t.equal((await refusalOf(answerOf(401, json).answer, asked)).message, 'It cannot be')
  t.equal((await refusalOf(answerOf(403, json).answer, from)).message, 'It cannot be')
})

t.test('explains the response of a proxy or of another server', async t => {
  const location = { location: 'https://b.test/' }
  const cases: Array<[status: number, headers: Record<string, string>, code: string, message: RegExp]> = [
    [300, location, 'redirected', /redirects to "https:\/\/b\.test\/"/],
    [399, location, 'redirected', /redirects to/],
    [302, {}, 'not_svc', /it answered 302 with no content type/],
    [299, location, 'not_svc', /is not an svc server/],
    [400, location, 'not_svc', /is not an svc server/],
    [413, {}, 'too_large', /client_max_body_size/],
    [407, {}, 'proxy_auth', /user name and a password/],
    [
      403,
      {},
      'http_403',
      /A proxy in front of .* answered 403 \(Forbidden\)\. It refuses the request before svc sees it/
    ],
    [405, {}, 'not_svc', /answered 405/],
    [408, {}, 'http_408', /answered 408 \(Request Timeout\)\. It waited too long/],
    [429, {}, 'http_429', /answered 429 \(Too Many Requests\)\. It limits the rate/],
    [500, {}, 'http_500', /answered 500 \(Internal Server Error\)\. It has an error of its own/],
    [501, {}, 'http_501', /answered 501 \(Not Implemented\)\. See its log/],
    [503, {}, 'http_503', /Check that the svc server is running/],
    [520, {}, 'http_520', /answered 520 \(an unknown status\)\. See its log/],
    [
      401,
      {},
      'proxy_login',
      /A proxy in front of .* answered 401 \(Unauthorized\)\. It requires its own user name and password/
    ],
    [502, {}, 'http_502', /Check that the svc server is running/],
    [504, {}, 'http_504', /svc did not answer it in time/],
    [404, { 'content-type': 'text/html; charset=utf-8' }, 'not_svc', /it answered 404 with text\/html\. Check/]
  ]
  for (const [status, headers, code, message] of cases) {
    for (const body of ['', '<p>', 'null', '{"error":1}']) {
      t.match(await refusalOf(answerOf(status, body, headers).answer, asked), { code, message }, `${status} ${body}`)
    }
  }
  for (const words of [
    '400 The plain HTTP request was sent to HTTPS port',
    'Client sent an HTTP request to an HTTPS server.'
  ]) {
    const { answer } = answerOf(400, words)
    t.match(await refusalOf(answer, { ...asked, address: 'http://a.test' }), {
      code: 'needs_https',
      message: /Use "https:\/\/a\.test"/
    })
  }
  const { answer, socket } = answerOf(200)
  notSvc(answer, 'https://a.test')
  t.ok(socket.isDestroyed)
})

t.test('a route that the server does not have is told from a record that is missing', t => {
  t.equal(missingRoute('Not found: GET /api/components'), 'GET /api/components')
  t.equal(missingRoute('There is no such address: PUT /api/projects/p/lock'), 'PUT /api/projects/p/lock')
  t.equal(missingRoute('Project not found: "shop"'), null)
  t.equal(missingRoute('Not found: the file /etc/passwd'), null)
  t.end()
})

t.test('limits the size of a response body', async t => {
  t.equal(await readText(answerOf(200, 'four').answer, 4), 'four')
  await t.rejects(readText(answerOf(200, 'five!').answer, 4), { code: 'answer_too_large' })
  const packed = (text: string, bytes = gzipSync(text)) => answerOf(200, bytes, { 'content-encoding': 'gzip' }).answer
  t.equal(await readText(packed('x'.repeat(100)), 100), 'x'.repeat(100), 'also of one that is compressed')
  await t.rejects(readText(packed('x'.repeat(101)), 100), { code: 'answer_too_large' })
  await t.rejects(readText(packed('', gzipSync('text').subarray(0, 20)), 100), { code: 'stream_broken' })
  t.equal(parseJson('{'), undefined)
  t.strictSame(parseJson('[1]'), [1])
})

t.test("the sentence of another server of the interface is shown, and a proxy's time to wait is kept", async t => {
  const failed = JSON.stringify({ success: false, message: 'Wrong token' })
  t.match(await refusalOf(answerOf(401, failed).answer, asked), { code: 'http_401', message: 'Wrong token' })
  const { retryAfterSeconds } = await refusalOf(answerOf(429, '<p>', { 'retry-after': '9' }).answer, asked)
  t.equal(retryAfterSeconds, 9)
})

t.test('knows the answers of servers that lack a route', async t => {
  const unknown = [
    answerOf(404, '{"error":"Not found"}'),
    answerOf(405, '{"error":"No"}'),
    answerOf(404),
    answerOf(405)
  ]
  for (const { answer } of unknown) t.ok(isUnknownRoute(await refusalOf(answer, asked)))
  t.ok(isUnknownRoute(notSvc(answerOf(200, '<html>').answer, 'https://a.test')))
  const noProject = JSON.stringify({ error: 'Project not found', code: 'no_such_project' })
  for (const { answer } of [answerOf(404, noProject), answerOf(403), answerOf(502), answerOf(401, json)])
    t.notOk(isUnknownRoute(await refusalOf(answer, asked)))
  t.notOk(isUnknownRoute(new Error('no')))
})

async function* body(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

const streams: Array<[what: string, text: string, expected: object[]]> = [
  ['one event', 'event: log\ndata: a\n\n', [{ event: 'log', data: 'a', id: '' }]],
  ['without a name', 'data: a\n\n', [{ event: 'message', data: 'a', id: '' }]],
  ['CR LF', 'event: log\r\ndata: ü\r\n\r\n', [{ event: 'log', data: 'ü', id: '' }]],
  ['no blank after the colon', 'data:a\n\n', [{ event: 'message', data: 'a', id: '' }]],
  ['only the first blank is dropped', 'data:  a\n\n', [{ event: 'message', data: ' a', id: '' }]],
  ['several lines of data', 'data: a\ndata: b\n\n', [{ event: 'message', data: 'a\nb', id: '' }]],
  ['a field without colon', 'data\n\n', [{ event: 'message', data: '', id: '' }]],
  [
    'comments and unknown fields',
    ':keep-alive\n\nretry: 5\nfoo: x\ndata: a\n\n',
    [{ event: 'message', data: 'a', id: '' }]
  ],
  [
    'the id lasts',
    'id: 7\ndata: a\n\ndata: b\n\n',
    [
      { event: 'message', data: 'a', id: '7' },
      { event: 'message', data: 'b', id: '7' }
    ]
  ],
  ['an event without data is none', 'event: log\n\ndata: a\n\n', [{ event: 'message', data: 'a', id: '' }]],
  ['what is cut off is dropped', 'data: a\n\ndata: b\n', [{ event: 'message', data: 'a', id: '' }]]
]

for (const [what, text, expected] of streams) {
  t.test(`readEvents: ${what}, whole and one byte at a time`, async t => {
    t.strictSame(await all(readEvents(body(text, 1 << 20))), expected)
    t.strictSame(await all(readEvents(body(text, 1))), expected)
  })
}

t.test('readNdjson returns an object for each line, including a last line without a newline', async t => {
  t.strictSame(await all(readNdjson(body('{"a":1}\n\n{"a":"ü"}', 1))), [{ a: 1 }, { a: 'ü' }])
})

t.test('readNdjson accepts the longest escaped line that the server sends', async t => {
  const data = '\u0001'.repeat(64 * 1024)
  t.strictSame(await all(readNdjson(body(`${JSON.stringify({ data })}\n`, 50_000))), [{ data }])
})

t.test('readNdjson refuses lines that are not objects', async t => {
  for (const text of ['<html>\n', '1\n', 'null\n']) {
    await t.rejects(all(readNdjson(body(text, 100))), { code: 'bad_stream' })
  }
})

t.test('readNdjson throws the error of the body unchanged', async t => {
  const error = new Error('broken')
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from('{"a":1}\n{')
    throw error
  }
  const values: object[] = []
  await t.rejects(async () => {
    for await (const value of readNdjson(broken())) values.push(value)
  }, error)
  t.strictSame(values, [{ a: 1 }])
})
