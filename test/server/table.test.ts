import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { request, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import type { Services } from '../../lib/server/services.js'
import { createTable } from '../../lib/server/table.js'
import { sendRaw } from '../support/http-server.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

const sealed = {
  'content-security-policy': "default-src 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff'
}
const ofPanel = { 'cross-origin-resource-policy': 'same-origin', 'x-content-type-options': 'nosniff' }

/** Returns the head of an answer. Its body, which may be a stream, is not waited for. */
async function headOf(url: string, method: string, headers: OutgoingHttpHeaders) {
  const sent = request(url, { method, headers, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  answer.on('error', () => {})
  sent.on('error', () => {}).destroy()
  return { status: answer.statusCode as number, headers: answer.headers }
}

t.test('contains the routes of the API, and the panel for all other paths', async t => {
  // A row uses its handlers only when it is called.
  const api = new Proxy({}, { get: () => new Proxy({}, { get: () => () => {} }) })
  const table = createTable({ api } as Services, { base: '', publicUrl: null })
  t.same(
    table.routes.map(({ method, path }) => `${method} ${path}`),
    apiRoutes(api as never).map(({ method, path }) => `${method} ${path}`)
  )
  t.type(table.fallback, 'function')
})

t.test('names the modules that a page needs, in the language of the reader', async t => {
  const { url } = await startServer(t)
  const page = async (path: string, language: string): Promise<string> => {
    const reply = await fetch(`${url}/${path}`, { headers: { accept: 'text/html', 'accept-language': language } })
    const links = reply.headers.get('link') ?? ''
    return `${links}\n${await reply.text()}`
  }
  t.match(await page('projects', 'en'), /pages\/projects\.js/)
  t.notMatch(await page('projects', 'fr, en;q=0.5'), /words\/zh/)
  t.match(await page('projects', 'zh-CN, en'), /words\/zh\/projects\.js/)
})

t.test('every answer but the panel is sealed against browsers', async t => {
  const stage = await startServer(t)
  const { id: projectId, token, deployPath } = await stage.createProject('shop')
  const form = new FormData()
  form.set('projectId', projectId)
  form.set('file', new Blob([await zipOf({ 'index.html': '<script>alert(1)</script>' })]), 'a.zip')
  const pushed = await fetch(`${stage.url}/api/deploy/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: form
  })
  t.match(Object.fromEntries(pushed.headers), sealed, 'the output of a push')
  await pushed.text()
  const deployId = pushed.headers.get('x-svc-deploy-id') as string
  const logs = { items: [{ label: 'page', filePath: join(deployPath, 'index.html') }] }
  const added = (await stage.client.post(`/api/projects/${projectId}/log-sources`, logs)).body as {
    items: Array<{ id: string }>
  }
  const sourceId = added.items[0]?.id as string
  const admin = { authorization: `Bearer ${stage.server.adminToken.current()}` }
  const known: Array<[RegExp, string]> = [
    [/(?<=^\/api\/projects\/):id/, projectId],
    [/:deployId|(?<=^\/api\/deployments\/):id/, deployId],
    [/:sourceId/, sourceId],
    [/[:*]\w+/g, 'none']
  ]
  const statuses = new Set<number>()
  const check = (headers: IncomingHttpHeaders, status: number, { what, wanted }: { what: string; wanted: object }) => {
    statuses.add(status)
    t.match(headers, wanted, `${what}: ${status}`)
  }
  for (const { method, path, cors } of apiRoutes(stage.server.services.api)) {
    const wanted = cors ? { ...sealed, 'cross-origin-resource-policy': 'cross-origin' } : sealed
    // Nothing is changed: only reads have ids of real things.
    const isRead = method === 'GET'
    const real = (isRead ? known : known.slice(-1)).reduce((at, [name, value]) => at.replace(name, value), path)
    const url = `${stage.url}${real}?path=index.html&q=a&full=1`
    const asked: Array<[string, OutgoingHttpHeaders]> = [
      [method, {}],
      [method, isRead ? admin : { ...admin, 'content-type': 'text/plain', 'content-length': '0' }],
      ['PURGE', admin],
      ['OPTIONS', { origin: 'https://other.example', 'access-control-request-method': method }]
    ]
    if (isRead) asked.push(['HEAD', admin], ['GET', { ...admin, 'accept-encoding': 'gzip' }])
    for (const [how, sent] of asked) {
      const answer = await headOf(url, how, sent)
      check(answer.headers, answer.status, { what: `${how} ${path}`, wanted: how === 'PURGE' ? sealed : wanted })
      const { etag } = answer.headers
      if (how !== 'GET' || answer.status !== 200 || etag === undefined) continue
      for (const [name, value] of [
        ['if-none-match', etag],
        ['range', 'bytes=1-2'],
        ['range', 'bytes=999999-']
      ] as const) {
        const again = await headOf(url, how, { ...admin, [name]: value })
        check(again.headers, again.status, { what: `${how} ${path} with ${name}`, wanted })
      }
    }
  }
  for (const path of ['/api', '/api/none', '/none.js', '/_0123/main.js', '/%00', '/a/../b'])
    check((await headOf(stage.url + path, 'GET', admin)).headers, 404, { what: path, wanted: sealed })
  const { port } = new URL(stage.url)
  const broken = await sendRaw(Number(port), 'nonsense\r\n\r\n')
  for (const [name, value] of Object.entries(sealed))
    t.match(broken.head, `${name}: ${value}`, 'bytes that are no request')
  for (const status of [200, 206, 304, 400, 401, 404, 405, 416])
    t.ok(statuses.has(status), `there were answers ${status}`)
})

t.test('the panel keeps its policy', async t => {
  const stage = await startServer(t, { base: '/a' })
  const directory = fileURLToPath(new URL('../../www/', import.meta.url))
  const files = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && !/\.(d\.ts|map|tsbuildinfo)$/.test(entry.name))
    .map(entry => join(entry.parentPath ?? entry.path, entry.name).slice(directory.length))
  t.ok(files.length > 50)
  for (const name of ['', 'projects/x', ...files]) {
    const { status, headers } = await headOf(`${stage.url}/${name}`, 'GET', { accept: 'text/html' })
    t.equal(status, 200, name)
    t.match(headers, ofPanel, name)
    const policy = headers['content-security-policy']
    if (/\.(js|css)$/.test(name)) t.equal(policy, undefined, name)
    else t.match(policy, "default-src 'none'; script-src 'self'", name)
  }
  const { port } = new URL(stage.url)
  const redirect = await headOf(`http://127.0.0.1:${port}/a`, 'GET', {})
  t.equal(redirect.status, 308)
  t.match(redirect.headers, sealed)
})
