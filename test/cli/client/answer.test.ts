import { PassThrough } from 'node:stream'
import t from 'tap'
import { isUnknownRoute, notSvc, parseJson, readText, refusalOf, type Answer } from '../../../lib/cli/client/answer.js'

function answerOf(statusCode: number, body = '', headers: Record<string, string> = {}) {
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

t.test('limits the size of a response body', async t => {
  t.equal(await readText(answerOf(200, 'four').answer, 4), 'four')
  await t.rejects(readText(answerOf(200, 'five!').answer, 4), { code: 'answer_too_large' })
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
