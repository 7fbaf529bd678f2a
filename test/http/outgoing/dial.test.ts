import t from 'tap'
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { dial } from '../../../lib/http/outgoing/dial.js'

const start = { method: 'GET', headers: { accept: 'text/plain' } }

async function listen(server: http.Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void (server.closeAllConnections(), server.close()))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function textOf(request: http.ClientRequest): Promise<string> {
  const [answer] = (await once(request.end(), 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk
  return text
}

t.test('a request goes to its server', async t => {
  const url = await listen(http.createServer((request, response) => response.end(`at ${request.url}`)))
  t.equal(await textOf(await dial(new URL(`${url}/a?b=c`), start, { proxy: null, limitMs: 1000 })), 'at /a?b=c')
})

t.test('a request for http through a proxy has the absolute form', async t => {
  const proxy = new URL(await listen(http.createServer((request, response) => response.end(`via ${request.url}`))))
  const text = await textOf(await dial(new URL('http://hub.test/a'), start, { proxy, limitMs: 1000 }))
  t.equal(text, 'via http://hub.test/a')
})

t.test('a proxy that never opens the tunnel, or refuses it, ends the attempt', async t => {
  const silent = http.createServer().on('connect', () => {})
  const url = new URL('https://hub.test')
  const proxy = new URL(await listen(silent))
  await t.rejects(dial(url, start, { proxy, limitMs: 20 }), { code: 'ETIMEDOUT' })
  const aborted = new Error('given up')
  const controller = new AbortController()
  const waiting = dial(url, start, { proxy, limitMs: 10_000, signal: controller.signal })
  controller.abort(aborted)
  await t.rejects(waiting, aborted)
  const refusing = http
    .createServer()
    .on('connect', (_, socket) => socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n'))
  const second = new URL(await listen(refusing))
  await t.rejects(dial(url, start, { proxy: second, limitMs: 1000 }), { code: 'unreachable', message: /407 Proxy/ })
})
