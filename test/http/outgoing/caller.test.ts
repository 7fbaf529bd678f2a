import t from 'tap'
import { once } from 'node:events'
import * as http from 'node:http'
import * as https from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type Caller, type CallerOptions, createCaller, dial, proxyFor } from '../../../lib/http/outgoing/caller.js'
import { makeSigned } from '../../support/certificates.js'
import { listen, urlOf } from '../../support/on-loopback.js'

function callerOf(options: Partial<CallerOptions> & { address: string }): Caller {
  const caller = createCaller({ environment: {}, ...options })
  t.teardown(() => caller.close())
  return caller
}

const call = { method: 'GET', path: '/x', headers: {}, limitMs: 5000 }

async function ask(caller: Caller, more: Partial<Parameters<Caller['send']>[0]> = {}): Promise<string> {
  const answer = await caller.send({ ...call, signal: new AbortController().signal, ...more })
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk
  return text
}

t.test('requests share a connection, and have the prefix of the server', async t => {
  const sockets = new Set<unknown>()
  const server = http.createServer(async (request, response) => {
    sockets.add(request.socket)
    let body = ''
    for await (const chunk of request) body += chunk
    response.end(`${request.method} ${request.url} ${body}`)
  })
  const caller = callerOf({ address: `${await urlOf(t, server)}/base` })
  t.equal(await ask(caller), 'GET /base/x ')
  t.equal(await ask(caller, { method: 'POST', body: Buffer.from('hello') }), 'POST /base/x hello')
  t.equal(sockets.size, 1)
})

t.test('a server that does not answer in time, and an abort, end the request', async t => {
  const silent = http.createServer(() => {})
  const caller = callerOf({ address: await urlOf(t, silent) })
  await t.rejects(ask(caller, { limitMs: 20 }), { code: 'ETIMEDOUT' })
  const controller = new AbortController()
  const reason = new Error('given up')
  const waiting = ask(caller, { signal: controller.signal })
  controller.abort(reason)
  await t.rejects(waiting, reason)
})

t.test('an abort ends an answer that is being read', async t => {
  const server = http.createServer((_, response) => void response.write('first'))
  const address = await urlOf(t, server)
  const controller = new AbortController()
  const reason = new Error('given up')
  const answer = await callerOf({ address }).send({ ...call, signal: controller.signal })
  await t.rejects(async () => {
    for await (const _ of answer) controller.abort(reason)
  }, reason)
})

t.test('TLS goes through a tunnel, and trusts only the given authority', async t => {
  const { authority, server } = makeSigned()
  const secure = https.createServer(server, (request, response) => response.end(`secure ${request.url}`))
  const port = await listen(t, secure)
  const asked: unknown[] = []
  const proxy = http.createServer().on('connect', (request, socket) => {
    asked.push(request.url)
    const onward = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  const environment = { HTTPS_PROXY: await urlOf(t, proxy) }
  const address = `https://localhost:${port}`
  t.equal(await ask(callerOf({ address, environment, ca: async () => authority.cert })), 'secure /x')
  t.equal(await ask(callerOf({ address, ca: async () => authority.cert })), 'secure /x')
  await t.rejects(ask(callerOf({ address, environment })), { code: /UNABLE_TO|SELF_SIGNED|SIGNATURE/ })
  await t.rejects(ask(callerOf({ address, ca: async () => makeSigned().authority.cert })), {
    code: /UNABLE_TO|SELF_SIGNED|SIGNATURE/
  })
  t.strictSame(asked, [`localhost:${port}`, `localhost:${port}`])
})

t.test('Unix socket', async t => {
  const socketPath = join(t.testdir(), 's')
  const server = http.createServer((request, response) => response.end(`local ${request.url}`))
  await once(server.listen(socketPath), 'listening')
  t.teardown(() => server.close())
  const environment = { HTTP_PROXY: 'http://127.0.0.1:1' }
  t.equal(await ask(callerOf({ address: 'http://svc.local', socketPath, environment })), 'local /x')
})

const start = { method: 'GET', headers: { accept: 'text/plain' } }

async function textOf(request: http.ClientRequest): Promise<string> {
  const [answer] = (await once(request.end(), 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk
  return text
}

t.test('a request goes to its server', async t => {
  const server = http.createServer((request, response) => response.end(`at ${request.url}`))
  const url = await urlOf(t, server)
  t.equal(await textOf(await dial(new URL(`${url}/a?b=c`), start, { proxy: null, limitMs: 1000 })), 'at /a?b=c')
})

t.test('a request for http through a proxy has the absolute form', async t => {
  const server = http.createServer((request, response) => response.end(`via ${request.url}`))
  const proxy = new URL(await urlOf(t, server))
  const text = await textOf(await dial(new URL('http://hub.test/a'), start, { proxy, limitMs: 1000 }))
  t.equal(text, 'via http://hub.test/a')
})

t.test('a proxy that never opens the tunnel, or refuses it, ends the attempt', async t => {
  const silent = http.createServer().on('connect', () => {})
  const url = new URL('https://hub.test')
  const proxy = new URL(await urlOf(t, silent))
  await t.rejects(dial(url, start, { proxy, limitMs: 20 }), { code: 'ETIMEDOUT' })
  const aborted = new Error('given up')
  const controller = new AbortController()
  const waiting = dial(url, start, { proxy, limitMs: 10_000, signal: controller.signal })
  controller.abort(aborted)
  await t.rejects(waiting, aborted)
  const refusing = http
    .createServer()
    .on('connect', (_, socket) => socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n'))
  const second = new URL(await urlOf(t, refusing))
  await t.rejects(dial(url, start, { proxy: second, limitMs: 1000 }), { code: 'unreachable', message: /407 Proxy/ })
})

const p = 'http://proxy:3128'
const cases: Array<[what: string, url: string, env: Record<string, string>, proxy: string | null]> = [
  ['no variable', 'http://a.test', {}, null],
  ['http by HTTP_PROXY', 'http://a.test', { HTTP_PROXY: p }, 'proxy:3128'],
  ['https not by HTTP_PROXY', 'https://a.test', { HTTP_PROXY: p }, null],
  ['https by HTTPS_PROXY', 'https://a.test', { HTTPS_PROXY: p }, 'proxy:3128'],
  ['lower case wins', 'http://a.test', { HTTP_PROXY: 'http://no:1', http_proxy: p }, 'proxy:3128'],
  ['ALL_PROXY for what is left', 'https://a.test', { HTTP_PROXY: 'http://no:1', ALL_PROXY: p }, 'proxy:3128'],
  ['an address without a scheme', 'http://a.test', { HTTP_PROXY: 'proxy:3128' }, 'proxy:3128'],
  ['an empty variable', 'http://a.test', { HTTP_PROXY: '' }, null],
  ['NO_PROXY *', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: '*' }, null],
  ['NO_PROXY with the host', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: 'b.test, A.TEST' }, null],
  ['NO_PROXY with a domain above it', 'http://x.a.test', { HTTP_PROXY: p, NO_PROXY: 'a.test' }, null],
  ['NO_PROXY with a leading dot', 'http://x.a.test', { HTTP_PROXY: p, NO_PROXY: '.a.test' }, null],
  ['NO_PROXY with *.', 'http://x.a.test', { HTTP_PROXY: p, NO_PROXY: '*.a.test' }, null],
  ['NO_PROXY with a name that only ends alike', 'http://xa.test', { HTTP_PROXY: p, NO_PROXY: 'a.test' }, 'proxy:3128'],
  ['NO_PROXY with the port', 'http://a.test:81', { HTTP_PROXY: p, NO_PROXY: 'a.test:81' }, null],
  ['NO_PROXY with another port', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: 'a.test:81' }, 'proxy:3128'],
  ['NO_PROXY with an address', 'http://127.0.0.1:5431', { HTTP_PROXY: p, NO_PROXY: 'localhost,127.0.0.1' }, null],
  ['NO_PROXY with an IPv6 address', 'http://[::1]:5431', { HTTP_PROXY: p, NO_PROXY: '::1' }, null],
  ['NO_PROXY with an IPv6 address and its port', 'http://[::1]:5431', { HTTP_PROXY: p, NO_PROXY: '[::1]:5431' }, null],
  ['NO_PROXY with an IPv6 address in another spelling', 'http://[::1]', { HTTP_PROXY: p, NO_PROXY: '0:0::1' }, null],
  ['NO_PROXY with an IPv6 address in brackets', 'http://[fd00::5]', { HTTP_PROXY: p, NO_PROXY: '[fd00::5]' }, null],
  ['NO_PROXY with another port of IPv6', 'http://[::1]:1', { HTTP_PROXY: p, NO_PROXY: '[::1]:2' }, 'proxy:3128'],
  ['NO_PROXY * with a port', 'http://a.test:81', { HTTP_PROXY: p, NO_PROXY: '*:81' }, null],
  ['NO_PROXY with a leading dot and a port', 'http://x.a.test:81', { HTTP_PROXY: p, NO_PROXY: '.a.test:81' }, null],
  ['NO_PROXY with a name that ends with a dot', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: 'a.test.' }, null],
  ['NO_PROXY with a host that ends with a dot', 'http://a.test.', { HTTP_PROXY: p, NO_PROXY: 'a.test' }, null],
  ['NO_PROXY with a block', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: 'x.test, 10.0.0.0/8' }, null],
  ['NO_PROXY with a block of one address', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: '10.1.2.3/32' }, null],
  ['NO_PROXY with the block of all', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: '0.0.0.0/0' }, null],
  ['NO_PROXY with another block', 'http://11.1.2.3', { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/8' }, 'proxy:3128'],
  ['NO_PROXY with a block and its port', 'http://10.1.2.3:81', { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/8:81' }, null],
  [
    'NO_PROXY with a block, another port',
    'http://10.1.2.3',
    { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/8:81' },
    'proxy:3128'
  ],
  ['NO_PROXY with a block of IPv6', 'http://[fd00:1::5]', { HTTP_PROXY: p, NO_PROXY: 'fd00::/8' }, null],
  ['NO_PROXY with a block in brackets', 'http://[fd00:1::5]:81', { HTTP_PROXY: p, NO_PROXY: '[fd00::]/8:81' }, null],
  ['NO_PROXY with another block of IPv6', 'http://[fe80::5]', { HTTP_PROXY: p, NO_PROXY: 'fd00::/8' }, 'proxy:3128'],
  ['NO_PROXY with a block that is none', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/33' }, 'proxy:3128'],
  [
    'NO_PROXY with a block does not look up names',
    'http://a.test',
    { HTTP_PROXY: p, NO_PROXY: '0.0.0.0/0' },
    'proxy:3128'
  ]
]

for (const [what, url, env, proxy] of cases) {
  t.test(`proxyFor: ${what}`, async t => t.equal(proxyFor(new URL(url), env)?.host ?? null, proxy))
}

t.test('proxyFor refuses an unsupported proxy without showing its password', async t => {
  t.throws(() => proxyFor(new URL('http://a.test'), { HTTP_PROXY: 'socks5://me:secret@proxy' }), {
    kind: 'usage',
    message: 'HTTP_PROXY is invalid: the address of a proxy must begin with http:// or https://'
  })
})
