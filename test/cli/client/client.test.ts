import t, { type Test } from 'tap'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import { connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { Refusal } from '../../../lib/base/errors.js'
import { type Body, createClient, explainNetworkError, requestOf } from '../../../lib/cli/client/client.js'
import { isUnknownRoute } from '../../../lib/cli/client/answer.js'
import { startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { listen, urlOf } from '../../support/on-loopback.js'

async function serve(t: Test, handle: http.RequestListener): Promise<string> {
  return await urlOf(t, http.createServer(handle))
}

function clientOf(serverUrl: string, env: Record<string, string> = {}) {
  return createClient({ serverUrl, token: { value: 'secret-token-value', from: 'SVC_TOKEN', origin: null }, env })
}

async function refuses(t: Test, promise: Promise<unknown>, refusal: object): Promise<void> {
  t.match(
    await promise.then(
      () => null,
      (error: Error) => error
    ),
    refusal
  )
}

function answerJson(response: http.ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(value))
}

function bodyOf(bytes: number, chunkBytes = 64 * 1024): Body & { sent: number } {
  const body = {
    contentType: 'application/octet-stream',
    bytes,
    sent: 0,
    async *chunks() {
      for (let left = bytes; left > 0; left -= chunkBytes) {
        const chunk = Buffer.alloc(Math.min(left, chunkBytes), 120)
        body.sent += chunk.length
        yield chunk
      }
    }
  }
  return body
}

t.test('a change without a body sends Content-Length: 0, and a GET sends no length', async t => {
  const seen: Array<Array<string | undefined>> = []
  const url = await serve(t, ({ method, headers }, response) => {
    seen.push([method, headers['content-length'], headers['transfer-encoding']])
    answerJson(response, 200, {})
  })
  const client = clientOf(url)
  for (const method of [undefined, 'GET', 'POST', 'PATCH'] as const)
    await client.json({ path: '/api/x', ...(method && { method }) })
  t.strictSame(seen, [
    ['GET', undefined, undefined],
    ['GET', undefined, undefined],
    ['POST', '0', undefined],
    ['PATCH', '0', undefined]
  ])
})

t.test('a request has the path prefix, the bearer token, the query and the JSON body', async t => {
  const seen: object[] = []
  const url = await serve(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method, url, headers } = request
    seen.push({
      method,
      url,
      authorization: headers.authorization,
      type: headers['content-type'],
      body: Buffer.concat(chunks).toString()
    })
    answerJson(response, 200, { ok: true })
  })
  const client = clientOf(`${url}/deploy/`)
  t.equal(client.address, `${url}/deploy`)
  t.strictSame(await client.json({ path: '/api/x', query: { a: '1 2', b: undefined } }), { ok: true })
  t.strictSame(await client.json({ method: 'POST', path: '/api/y', json: { z: 1 } }), { ok: true })
  const authorization = 'Bearer secret-token-value'
  t.strictSame(seen, [
    { method: 'GET', url: '/deploy/api/x?a=1+2', authorization, type: undefined, body: '' },
    { method: 'POST', url: '/deploy/api/y', authorization, type: 'application/json', body: '{"z":1}' }
  ])
})

const answers: Array<[what: string, status: number, headers: Record<string, string>, body: string, refusal: object]> = [
  [
    "svc's own refusal",
    409,
    { 'content-type': 'application/json' },
    '{"error":"Not now","code":"busy"}',
    { kind: 'conflict', code: 'busy', message: 'Not now' }
  ],
  [
    'a token that is refused',
    401,
    { 'content-type': 'application/json' },
    '{"error":"Unknown token","code":"unauthorized"}',
    { kind: 'unauthorized', message: 'Unknown token (the token came from SVC_TOKEN)' }
  ],
  [
    'too many',
    429,
    { 'content-type': 'application/json', 'retry-after': '7' },
    '{"error":"Later","code":"locked"}',
    { kind: 'too_many', retryAfterSeconds: 7 }
  ],
  [
    'a page instead of JSON',
    200,
    { 'content-type': 'text/html' },
    '<html>',
    { code: 'not_svc', message: /is not an svc server: it answered 200 with text\/html/ }
  ],
  [
    'JSON that svc never answers',
    200,
    { 'content-type': 'application/json' },
    'null',
    { code: 'not_svc', message: /is not an svc server: it answered 200 with application\/json/ }
  ],
  [
    "another program's 404",
    404,
    { 'content-type': 'text/html' },
    '<html>',
    { code: 'not_svc', message: /it answered 404/ }
  ],
  ['JSON that is broken', 200, { 'content-type': 'application/json' }, '{', { code: 'not_svc' }],
  [
    'a redirect',
    301,
    { location: 'https://deploy.test/' },
    '',
    { code: 'redirected', message: /redirects to "https:\/\/deploy\.test\/"/ }
  ],
  [
    'nginx without its server',
    502,
    { 'content-type': 'text/html' },
    '<html>',
    { code: 'http_502', message: /Check that the svc server is running/ }
  ],
  [
    'nginx with a limit of its own',
    413,
    { 'content-type': 'text/html' },
    '<html>',
    { kind: 'too_large', message: /client_max_body_size/ }
  ]
]

for (const [what, status, headers, body, refusal] of answers) {
  t.test(`an error response becomes a refusal: ${what}`, async t => {
    const url = await serve(t, (_, response) => response.writeHead(status, headers).end(body))
    await refuses(t, clientOf(url).json({ path: '/api/x' }), refusal)
  })
}

t.test('an error never contains the token', async t => {
  const url = await serve(t, (_, response) => answerJson(response, 401, { error: 'No', code: 'unauthorized' }))
  for (const address of [url, 'http://127.0.0.1:1', 'http://nowhere.invalid']) {
    const error = await clientOf(address)
      .json({ path: '/api/x' })
      .then(
        () => null,
        (error: Error) => error
      )
    t.type(error, Error)
    t.notMatch(`${error?.stack} ${JSON.stringify(error)}`, 'secret-token-value')
  }
})

t.test('refuses an invalid address', async t => {
  for (const url of ['deploy.test', 'ftp://deploy.test', 'http://me:secret@deploy.test', '']) {
    t.throws(() => clientOf(url), { message: /is invalid/ }, url)
  }
})

t.test('recognizes servers that do not speak HTTP', async t => {
  const port = await listen(
    t,
    createServer(socket => socket.end('SSH-2.0-OpenSSH_9.2\r\n'))
  )
  await t.rejects(clientOf(`http://127.0.0.1:${port}`).json({ path: '/' }), {
    code: 'unreachable',
    message: /does not speak HTTP/
  })
  await t.rejects(clientOf(`https://127.0.0.1:${port}`).json({ path: '/' }), {
    code: 'unreachable',
    message: /does not speak TLS/
  })
})

t.test('reports a connection that is closed without an answer', async t => {
  const port = await listen(
    t,
    createServer(socket => socket.once('data', () => socket.end()))
  )
  await t.rejects(clientOf(`http://127.0.0.1:${port}`).json({ path: '/' }), {
    code: 'unreachable',
    message: /closed the connection/
  })
})

t.test('sends a body completely', async t => {
  let received = 0
  const url = await serve(t, async (request, response) => {
    for await (const chunk of request) received += (chunk as Buffer).length
    answerJson(response, 200, { length: request.headers['content-length'] })
  })
  const bytes = 3 * 1024 * 1024 + 17
  t.strictSame(await clientOf(url).json({ method: 'POST', path: '/', body: bodyOf(bytes) }), { length: String(bytes) })
  t.equal(received, bytes)
})

t.test('a refusal before "100 Continue" prevents sending the body', async t => {
  const server = http.createServer()
  server.on('checkContinue', (_, response: http.ServerResponse) =>
    answerJson(response, 401, { error: 'No', code: 'unauthorized' })
  )
  const url = await urlOf(t, server)
  const body = bodyOf(50 * 1024 * 1024)
  await refuses(t, clientOf(url).json({ method: 'POST', path: '/', body }), { kind: 'unauthorized' })
  t.equal(body.sent, 0)
})

t.test('a refusal during the upload is read, and the rest of the body is not sent', async t => {
  const url = await serve(t, (request, response) => {
    request.once('data', () => {
      request.pause()
      answerJson(response, 413, { error: 'Too large: 500 MB at most', code: 'too_large' })
    })
  })
  const body = bodyOf(200 * 1024 * 1024)
  await t.rejects(clientOf(url).json({ method: 'POST', path: '/', body }), {
    kind: 'too_large',
    message: 'Too large: 500 MB at most'
  })
  t.ok(body.sent < body.bytes, `${body.sent} of ${body.bytes} sent`)
})

t.test('sends the body to a server that never answers "100 Continue"', async t => {
  const port = await listen(
    t,
    createServer(socket => {
      let received = 0
      socket.on('error', () => {})
      socket.on('data', chunk => {
        received += chunk.length
        if (received > 100 * 1024)
          socket.end('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}')
      })
    })
  )
  t.strictSame(
    await clientOf(`http://127.0.0.1:${port}`).json({ method: 'POST', path: '/', body: bodyOf(100 * 1024) }),
    {}
  )
})

t.test('reports a server that closes the connection while the body is sent', async t => {
  const url = await serve(t, request => void request.once('data', () => request.socket.destroy()))
  await t.rejects(clientOf(url).json({ method: 'POST', path: '/', body: bodyOf(200 * 1024 * 1024) }), {
    code: 'unreachable'
  })
})

t.test('a signal aborts a request at any time and throws its reason unchanged', async t => {
  const reason = new Error('enough')
  const url = await serve(t, (request, response) => {
    if (request.url === '/silent') return
    response.writeHead(200, { 'content-type': 'text/plain' }).write('first')
  })
  await t.rejects(clientOf(url).open({ path: '/silent', signal: AbortSignal.abort(reason) }), reason)

  const waiting = new AbortController()
  const silent = clientOf(url).open({ path: '/silent', signal: waiting.signal })
  setTimeout(() => waiting.abort(reason), 30)
  await t.rejects(silent, reason)

  const reading = new AbortController()
  const answer = await clientOf(url).open({ path: '/text', accept: 'text/plain', signal: reading.signal })
  await t.rejects(async () => {
    for await (const _ of answer) reading.abort(reason)
  }, reason)
})

t.test('a request through HTTP_PROXY has an absolute URL and the password of the proxy', async t => {
  const seen: object[] = []
  const proxy = await serve(t, (request, response) => {
    seen.push({ url: request.url, host: request.headers.host, proxy: request.headers['proxy-authorization'] })
    answerJson(response, 200, { via: 'proxy' })
  })
  const env = { HTTP_PROXY: proxy.replace('//', '//me:p%20w@') }
  t.strictSame(await clientOf('http://deploy.test/a', env).json({ path: '/api/x' }), { via: 'proxy' })
  const basic = `Basic ${Buffer.from('me:p w').toString('base64')}`
  t.strictSame(seen, [{ url: 'http://deploy.test/a/api/x', host: 'deploy.test', proxy: basic }])
  await t.rejects(clientOf('http://127.0.0.1:1', { HTTP_PROXY: 'http://me:hidden@127.0.0.1:2' }).json({ path: '/' }), {
    message: /connection refused by the proxy 127\.0\.0\.1:2/
  })
})

t.test('a request through HTTPS_PROXY uses a tunnel, and NODE_EXTRA_CA_CERTS adds an authority', async t => {
  const tls = certificate(t)
  if (tls === null) return
  const port = await listen(
    t,
    https.createServer(tls, (_, response) => answerJson(response, 200, []))
  )
  const asked: (string | undefined)[] = []
  const proxy = http.createServer()
  proxy.on('connect', (request, socket) => {
    asked.push(request.url)
    const onward = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  const env = { HTTPS_PROXY: await urlOf(t, proxy) }
  const words = ['list', '--json', '--token', 'token', '--server', `https://localhost:${port}`]
  t.match(await svc(words, { cwd: t.testdirName, env: { ...env, NODE_EXTRA_CA_CERTS: tls.path } }), {
    code: 0,
    stdout: '[]\n'
  })
  t.match(await svc(words, { cwd: t.testdirName, env }), { code: 1, stderr: /NODE_EXTRA_CA_CERTS/ })
  t.same(asked, [`localhost:${port}`, `localhost:${port}`])
})

t.test('quotes a proxy that refuses the tunnel', async t => {
  const server = http.createServer()
  server.on('connect', (_, socket) => socket.end('HTTP/1.1 403 Not from here\r\n\r\n'))
  const proxy = await urlOf(t, server)
  await t.rejects(clientOf('https://deploy.test', { HTTPS_PROXY: proxy }).json({ path: '/' }), {
    code: 'unreachable',
    message: /answered 403 Not from here/
  })
})

t.test('explains a certificate of an unknown authority', async t => {
  const tls = certificate(t)
  if (tls === null) return
  const port = await listen(t, https.createServer(tls))
  await t.rejects(clientOf(`https://localhost:${port}`).json({ path: '/' }), {
    code: 'unreachable',
    message: /NODE_EXTRA_CA_CERTS/
  })
})

/** A key and certificate of its own for `localhost`; null, with the reason, where there is no openssl. */
function certificate(t: Test): { key: Buffer; cert: Buffer; path: string } | null {
  const directory = t.testdir({})
  try {
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-days',
        '2',
        '-subj',
        '/CN=localhost',
        '-addext',
        'subjectAltName=DNS:localhost',
        '-keyout',
        `${directory}/key`,
        '-out',
        `${directory}/cert`
      ],
      { stdio: 'ignore' }
    )
  } catch {
    t.comment('skipped: openssl is not on this machine')
    return null
  }
  return { key: readFileSync(`${directory}/key`), cert: readFileSync(`${directory}/cert`), path: `${directory}/cert` }
}

t.test('a request is repeated while a cluster has no leader, and an unknown outcome is not', async t => {
  const { createServer } = await import('node:http')
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    const code = request.url === '/lost' ? 'leader_lost' : 'no_leader'
    const isDone = asked.length > 9 && request.url === '/x'
    const wait = request.url === '/lasting' ? {} : { 'retry-after': '0.01' }
    response.writeHead(isDone ? 200 : 503, { 'content-type': 'application/json', ...wait })
    response.end(isDone ? '{"success":true}' : JSON.stringify({ success: false, error: 'Nobody leads', code }))
  })
  const serverUrl = await urlOf(t, server)
  const client = createClient({ serverUrl, token: null, env: {} })
  t.match(await client.json({ method: 'POST', path: '/x', json: {} }), { success: true })
  t.strictSame(asked, Array(10).fill('POST /x'), 'the time counts, and not how often it asked')
  asked.length = 0
  await t.rejects(client.json({ method: 'POST', path: '/lost', json: {} }), { code: 'leader_lost' })
  t.equal(asked.length, 1)
  const hurried = createClient({ serverUrl, token: null, env: {}, leaderWaitMs: 100 })
  const fromMs = performance.now()
  await t.rejects(hurried.json({ method: 'GET', path: '/never' }), { code: 'no_leader' })
  t.ok(performance.now() - fromMs >= 100)
  asked.length = 0
  await t.rejects(client.json({ method: 'GET', path: '/lasting' }), { code: 'no_leader' })
  t.equal(asked.length, 1, 'a hub whose problem lasts names no time to wait')
})

const attempt = { address: 'https://deploy.test/a', host: 'deploy.test', proxy: null }
const cases: Array<[code: string, sentence: RegExp]> = [
  ['ECONNREFUSED', /connection refused by https:\/\/deploy\.test\/a\. Start the server with "svc serve"/],
  ['ENOTFOUND', /host not found: "deploy\.test"\. Check the address/],
  ['EAI_AGAIN', /temporary failure in name resolution: /],
  ['ETIMEDOUT', /did not answer in time/],
  ['ECONNRESET', /closed the connection/],
  ['CERT_HAS_EXPIRED', /has expired/],
  ['SELF_SIGNED_CERT_IN_CHAIN', /NODE_EXTRA_CA_CERTS/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', /not valid for "deploy\.test"/],
  ['CERT_NOT_YET_VALID', /server: its certificate is not valid yet, or a clock is wrong$/],
  ['CERT_REVOKED', /server: low-level$/],
  ['ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE', /server: low-level$/],
  ['EPROTO', /does not speak TLS on that port\. For plain HTTP, use "http:\/\/deploy\.test\/a"/],
  ['HPE_INVALID_CONSTANT', /does not speak HTTP/]
]

for (const [code, sentence] of cases) {
  t.test(`explainNetworkError: ${code}`, async t => {
    const cause = Object.assign(new Error('low-level'), { code })
    const refusal = explainNetworkError(cause, attempt)
    t.type(refusal, Refusal)
    t.match(refusal, { kind: 'unavailable', code: 'unreachable', message: sentence, cause })
  })
}

t.test('explainNetworkError names the proxy that does not answer', async t => {
  const refusal = explainNetworkError(Object.assign(new Error(), { code: 'ECONNREFUSED' }), {
    ...attempt,
    proxy: 'proxy:3128'
  })
  t.match(refusal, { message: /connection refused by the proxy proxy:3128\./ })
})

t.test('explainNetworkError names the proxy whose name is not found', async t => {
  const error = Object.assign(new Error('x'), { code: 'ENOTFOUND' })
  const given = { ...attempt, proxy: 'nonsense:80' }
  t.match(explainNetworkError(error, given), { message: /host not found: the proxy "nonsense:80"\. Check HTTP_PROXY/ })
})

t.test('explainNetworkError passes on errors that are not network failures', async t => {
  const bug = new TypeError('a bug')
  t.equal(explainNetworkError(bug, attempt), bug)
  const refusal = new Refusal('invalid', 'x', 'y')
  t.equal(explainNetworkError(refusal, attempt), refusal)
})

t.test('a route is asked with its parameters, its query and its body', async t => {
  const asked: string[] = []
  const url = await serve(t, async (request, response) => {
    asked.push(`${request.method} ${request.url} ${await text(request)}`)
    response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
  })
  const client = clientOf(url)
  await client.call('GET /api/projects')
  await client.call('GET /api/logs', { query: { limit: 5, before: undefined } })
  await client.call('PUT /api/projects/:id/lock', { id: 'a/b', body: { reason: 'x' }, answerLimitMs: 1000 })
  t.strictSame(asked, ['GET /api/projects ', 'GET /api/logs?limit=5 ', 'PUT /api/projects/a%2Fb/lock {"reason":"x"}'])
})

t.test('what no route takes does not compile', async t => {
  // @ts-expect-error the id is missing
  t.ok(requestOf('GET /api/projects/:id', {}))
  // @ts-expect-error an unknown parameter of the query
  t.ok(requestOf('GET /api/logs', { query: { limits: 5 } }))
})

t.test('an address with another prefix than the server has is told from an older server', async t => {
  const stage = await startServer(t, { base: '/tools' })
  const { origin } = new URL(stage.url)
  for (const serverUrl of [origin, `${origin}/tool`, `${stage.url}/x`]) {
    const client = createClient({ serverUrl, token: null, env: {} })
    const refusal = { code: 'wrong_prefix', message: /^There is no svc at .*Correct the address: .*--base/ }
    await t.rejects(client.call('GET /api/projects'), refusal, serverUrl)
  }
  const client = createClient({ serverUrl: stage.url, token: null, env: {} })
  const message = 'The server does not know GET /tools/api/none: it may be older than this svc. Update the server'
  const older = await client.json({ path: '/api/none' }).catch((error: unknown) => error)
  t.match(older, { code: 'not_found', message }, 'an older server')
  t.ok(isUnknownRoute(older))
})

t.test('refuses an object of another program where svc has a list', async t => {
  const url = await serve(t, (_, response) => answerJson(response, 200, { message: 'ok' }))
  await t.rejects(clientOf(url).call('GET /api/projects'), { code: 'not_svc' })
  await t.rejects(clientOf(url).call('GET /api/logs', { query: { limit: 1 } }), { code: 'not_svc' })
})
