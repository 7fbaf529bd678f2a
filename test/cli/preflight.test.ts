import t from 'tap'
import { once } from 'node:events'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { makeCertificate } from '../support/certificates.js'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'

t.test('what would be refused is said before anything is packed', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const forum = await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })
  const site = join(cwd, 'site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'x')
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))

  const cases: Array<[what: string, token: string, words: string[], stderr: RegExp]> = [
    ['a wrong token', 'not-the-token-of-anything', [], /The token is not valid here \(the token came from SVC_DEPLOY_TOKEN\).*svc projects token proj_/],
    ['another project', forum.token, [], /belongs to project forum \(proj_\w+\), not to proj_\w+, which \S+svc\.config\.json names/],
    ['the admin token', server.adminToken, [], /The token from SVC_DEPLOY_TOKEN is the admin token: a push needs the project's deploy token/]
  ]
  for (const [what, token, words, stderr] of cases) {
    const ended = await svc(['push', ...words], { cwd: site, env: { SVC_DEPLOY_TOKEN: token } })
    t.match(ended, { code: 1, stdout: '', stderr }, what)
    t.notMatch(ended.stderr, 'Packing', what)
    t.notMatch(ended.stderr, token, what)
  }

  await server.api('PUT', '/api/settings', { allow_client_scripts: 'false', max_extracted_size: '1' })
  const env = { SVC_DEPLOY_TOKEN: shop.token }
  const scripts = await svc(['push', '--post', 'true'], { cwd: site, env })
  t.match(scripts, { code: 1, stderr: /^error: The upload may not carry "postDeploy".*client scripts off/ })
  t.notMatch(scripts.stderr, 'Packing')

  writeFileSync(join(site, 'large.bin'), '')
  truncateSync(join(site, 'large.bin'), 3 * 1024 * 1024)
  const large = await svc(['push'], { cwd: site, env })
  t.match(large, { code: 1, stderr: /its files have 3\.0 MB, and the server takes 1\.0 MB at most \(setting max_extracted_size\)/ })
  t.notMatch(large.stderr, 'Packed')
  t.same(await server.deployments(shop.id), [])
})

t.test('a server that does not know the question is pushed to all the same', async t => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url?.split('?')[0]}`)
    request.resume()
    request.on('end', () => {
      const unknown = { success: false, error: 'Nothing is at this address', code: 'not_found' }
      const status = { event: 'status', status: 'success', duration: '0.10s', deployId: 'dep_1' }
      if (request.method === 'GET') response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(unknown))
      else response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(`${JSON.stringify(status)}\n`)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const cwd = t.testdir({ 'index.html': 'x', 'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: url }) })
  t.match(await svc(['push'], { cwd, env: { SVC_DEPLOY_TOKEN: 'x' } }), { code: 0 })
  t.same(asked, ['GET /api/deploy/check', 'POST /api/deploy/upload', 'GET /api/logs/dep_1'])
})

t.test('a push over the wrong protocol, or past a proxy that refuses it, says cause and cure', async t => {
  const plain = createServer((_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}')).listen(0, '127.0.0.1')
  const identity = makeCertificate({ names: ['127.0.0.1'] })
  const secure = createSecureServer({ cert: identity.cert, key: identity.key }, (_, response) => response.end()).listen(0, '127.0.0.1')
  const proxy = createServer((request, response) => {
    request.resume()
    const { status, headers = {} } = answers[proxied++] as (typeof answers)[number]
    response.writeHead(status, { 'content-type': 'text/html', ...headers }).end('<h1>No</h1>')
  }).listen(0, '127.0.0.1')
  const answers: Array<{ status: number; headers?: Record<string, string>; cure: RegExp }> = [
    { status: 401, headers: { 'www-authenticate': 'Basic realm="staging"' }, cure: /asks for its own user name and password \(401\): let the proxy pass requests below \/api/ },
    { status: 413, cure: /refuses uploads of that size \(413\): raise its limit/ },
    { status: 502, cure: /answered 502: it gets no answer from svc\. Is the svc server behind it running/ }
  ]
  let proxied = 0
  await Promise.all([plain, secure, proxy].map(async server => {
    t.teardown(() => server.close())
    await once(server, 'listening')
  }))
  const [plainPort, securePort, proxyPort] = [plain, secure, proxy].map(server => (server.address() as AddressInfo).port)
  const cwd = t.testdir({ 'index.html': 'x', 'svc.config.json': JSON.stringify({ projectId: 'proj_1' }) })
  const push = (server: string) => svc(['push', '--server', server], { cwd, env: { SVC_DEPLOY_TOKEN: 'x' } })

  const cases: Array<[server: string, cure: RegExp]> = [
    [`https://127.0.0.1:${plainPort}`, new RegExp(`does not speak TLS on that port: .* the address is "http://127.0.0.1:${plainPort}"`)],
    [`http://127.0.0.1:${securePort}`, /expects TLS, the address begins with https:\/\//],
    ...answers.map(({ cure }) => [`http://127.0.0.1:${proxyPort}`, cure] as [string, RegExp])
  ]
  for (const [server, cure] of cases) {
    const ended = await push(server)
    t.match(ended, { code: 1, stdout: '', stderr: cure }, server)
    t.notMatch(ended.stderr, /Packing|not known|had left/, server)
  }
})
