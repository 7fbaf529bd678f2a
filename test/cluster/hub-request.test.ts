import t from 'tap'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createHubClient, openHubUrl } from '../../lib/cluster/hub-request.js'
import { makeSigned } from '../support/certificates.js'
import { freePort } from '../support/free-port.js'
import { ownHub, readerOf, signerOf } from '../support/hub-keys.js'

const read = readerOf('h1', ['h2'])
const to = (url: string) => ownHub({ name: 'h1', url })
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
    const found = read({ method: 'POST', target, headers: request.headers })
    const hub = found !== null && 'hub' in found ? found.hub : null
    response.end(JSON.stringify({ hub: { name: hub?.name, isOwn: hub?.isOwn }, url: request.url }))
  })
  const client = createHubClient({ signer: signerOf('h2'), allowsHttp: false })
  const answer = await client.json(to(`${url}/base`), {
    method: 'POST',
    target: '/api/hub/x?a=1',
    body: { a: 1 },
    signal
  })
  t.strictSame(answer, { hub: { name: 'h2', isOwn: true }, url: '/base/api/hub/x?a=1' })
})

t.test('a refusal keeps its code, and anything else names the hub', async t => {
  const client = createHubClient({ signer: signerOf('h2'), allowsHttp: false, silentMs: 200 })
  const refusing = await startHub(t, (_, response) => {
    response.writeHead(404).end('{"error":"Archive not found","code":"not_found"}')
  })
  const ask = (url: string) => client.ask(to(url), { method: 'GET', target: '/', signal })
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
    const found = read({ method: 'GET', target: '/', headers: request.headers })
    asked.push(found !== null && 'hub' in found && found.hub.name)
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  const ask = (ca?: string) =>
    createHubClient({ signer: signerOf('h2'), allowsHttp: false, ca }).json(to(url), {
      method: 'GET',
      target: '/',
      signal
    })
  await t.rejects(ask(), { code: 'hub_unreachable' }, 'an authority that this machine does not know')
  await t.rejects(ask(makeSigned().authority.cert), { code: 'hub_unreachable' }, 'another authority')
  t.strictSame(asked, [])
  await ask(authority.cert)
  t.strictSame(asked, ['h2'])
})

t.test('nothing is sent unencrypted to another machine', async t => {
  const cases: Array<[url: string, isSent: boolean]> = [
    ['https://h1.example.org', true],
    ['http://127.0.0.1:5431', true],
    ['http://127.8.9.10', true],
    ['http://[::1]:5431/base', true],
    ['http://localhost', true],
    ['http://192.0.2.9', false],
    ['http://h1', false],
    ['http://localhost.example.org', false],
    ['http://127.0.0.1.example.org', false],
    ['http://[::ffff:192.0.2.9]', false]
  ]
  for (const [url, isSent] of cases) {
    if (isSent) t.equal(openHubUrl(url, false).href, new URL(url).href)
    else t.throws(() => openHubUrl(url, false), { code: 'hub_not_encrypted' }, url)
    t.equal(openHubUrl(url, true).href, new URL(url).href, 'if it is allowed')
  }
})
