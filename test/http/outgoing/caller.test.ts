import t from 'tap'
import { once } from 'node:events'
import * as http from 'node:http'
import * as https from 'node:https'
import { connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createCaller, type Caller, type CallerOptions } from '../../../lib/http/outgoing/caller.js'
import { makeSigned } from '../../support/certificates.js'

async function listen(server: http.Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void (server.closeAllConnections(), server.close()))
  return (server.address() as AddressInfo).port
}

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
  const port = await listen(
    http.createServer(async (request, response) => {
      sockets.add(request.socket)
      let body = ''
      for await (const chunk of request) body += chunk
      response.end(`${request.method} ${request.url} ${body}`)
    })
  )
  const caller = callerOf({ address: `http://127.0.0.1:${port}/base` })
  t.equal(await ask(caller), 'GET /base/x ')
  t.equal(await ask(caller, { method: 'POST', body: Buffer.from('hello') }), 'POST /base/x hello')
  t.equal(sockets.size, 1)
})

t.test('a server that does not answer in time, and an abort, end the request', async t => {
  const port = await listen(http.createServer(() => {}))
  const caller = callerOf({ address: `http://127.0.0.1:${port}` })
  await t.rejects(ask(caller, { limitMs: 20 }), { code: 'ETIMEDOUT' })
  const controller = new AbortController()
  const reason = new Error('given up')
  const waiting = ask(caller, { signal: controller.signal })
  controller.abort(reason)
  await t.rejects(waiting, reason)
})

t.test('an abort ends an answer that is being read', async t => {
  const port = await listen(http.createServer((_, response) => void response.write('first')))
  const controller = new AbortController()
  const reason = new Error('given up')
  const answer = await callerOf({ address: `http://127.0.0.1:${port}` }).send({ ...call, signal: controller.signal })
  await t.rejects(async () => {
    for await (const _ of answer) controller.abort(reason)
  }, reason)
})

t.test('TLS goes through a tunnel, and trusts only the given authority', async t => {
  const { authority, server } = makeSigned()
  const secure = https.createServer(server, (request, response) => response.end(`secure ${request.url}`))
  const port = await listen(secure)
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
  const environment = { HTTPS_PROXY: `http://127.0.0.1:${await listen(proxy)}` }
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
