import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { forwardKeyOf, readForwarded } from '../../../lib/http/outgoing/forwarded.js'
import { createHubClient } from '../../../lib/http/outgoing/hub-request.js'
import { makeSigned } from '../../support/certificates.js'
import { freePort } from '../../support/free-port.js'

const key = forwardKeyOf(Buffer.alloc(32, 7))
const { signal } = new AbortController()

async function startHub(t: Test, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Test {
  teardown(work: () => unknown): void
}

t.test('a request is signed as one of the hub itself, below the base path', async t => {
  const url = await startHub(t, (request, response) => {
    const target = (request.url as string).replace('/base', '')
    const { hub } = readForwarded(key, { method: 'POST', target, headers: request.headers }) ?? {}
    response.end(JSON.stringify({ hub, url: request.url }))
  })
  const client = createHubClient({ key, hub: 'h2' })
  const answer = await client.json(`${url}/base`, { method: 'POST', target: '/api/hub/x?a=1', body: { a: 1 }, signal })
  t.strictSame(answer, { hub: { name: 'h2', isOwn: true, isSecure: false }, url: '/base/api/hub/x?a=1' })
})

t.test('a refusal keeps its code, and anything else names the hub', async t => {
  const client = createHubClient({ key, hub: 'h2', silentMs: 200 })
  const refusing = await startHub(t, (_, response) => {
    response.writeHead(404).end('{"error":"Archive not found","code":"not_found"}')
  })
  const ask = (url: string) => client.ask(url, { method: 'GET', target: '/', signal })
  await t.rejects(ask(refusing), { code: 'not_found', message: 'Archive not found' })
  const foreign = await startHub(t, (_, response) => void response.writeHead(200 + 302).end('<html>'))
  await t.rejects(ask(foreign), { code: 'hub_unreachable', message: /answered 502/ })
  const silent = await startHub(t, () => {})
  await t.rejects(ask(silent), { code: 'hub_unreachable', message: /silent/ })
  await t.rejects(ask(`http://127.0.0.1:${await freePort()}`), { code: 'hub_unreachable', message: /refused/ })
})

t.test('only a hub with a certificate of the given authority gets a request', async t => {
  const { authority, server: own } = makeSigned()
  const asked: unknown[] = []
  const server = createSecureServer(own, (request, response) => {
    asked.push(readForwarded(key, { method: 'GET', target: '/', headers: request.headers })?.hub)
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  const ask = (ca?: string) => createHubClient({ key, hub: 'h2', ca }).json(url, { method: 'GET', target: '/', signal })
  await t.rejects(ask(), { code: 'hub_unreachable' }, 'an authority that this machine does not know')
  await t.rejects(ask(makeSigned().authority.cert), { code: 'hub_unreachable' }, 'another authority')
  t.strictSame(asked, [])
  await ask(authority.cert)
  t.strictSame(asked, [{ name: 'h2', isOwn: true, isSecure: true }])
})
