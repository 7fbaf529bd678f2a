import t from 'tap'
import { once } from 'node:events'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { makeCertificate } from '../../support/certificates.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('reports a refusal before anything is packed', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const forum = await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })
  const site = join(cwd, 'site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'x')
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))

  const cases: Array<[what: string, token: string, words: string[], stderr: RegExp]> = [
    [
      'a wrong token',
      'not-the-token-of-anything',
      [],
      /The token is not valid here \(the token came from SVC_DEPLOY_TOKEN\).*svc projects token proj_/
    ],
    [
      'another project',
      forum.token,
      [],
      /belongs to project forum \(proj_\w+\), not to proj_\w+ \(from \S*svc\.config\.json\)/
    ],
    [
      'the admin token',
      server.adminToken,
      [],
      /The token from SVC_DEPLOY_TOKEN is the admin token, but a push needs the deploy token of the project/
    ]
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
  t.match(scripts, { code: 1, stderr: /^error: Cannot run "postDeploy" of the upload: .* disables client scripts/ })
  t.notMatch(scripts.stderr, 'Packing')

  writeFileSync(join(site, 'large.bin'), '')
  truncateSync(join(site, 'large.bin'), 3 * 1024 * 1024)
  const large = await svc(['push'], { cwd: site, env })
  t.match(large, {
    code: 1,
    stderr: /its files have 3\.0 MB, and the server accepts at most 1\.0 MB \(setting max_extracted_size\)/
  })
  t.notMatch(large.stderr, 'Packed')
  t.same(await server.deployments(shop.id), [])
})

t.test('pushes to an older server without the check', async t => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url?.split('?')[0]}`)
    request.resume()
    request.on('end', () => {
      const unknown = { success: false, error: 'Not found', code: 'not_found' }
      const status = { event: 'status', status: 'success', duration: '0.10s', deployId: 'dep_1' }
      if (request.method === 'GET')
        response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(unknown))
      else response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(`${JSON.stringify(status)}\n`)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const cwd = t.testdir({
    'index.html': 'x',
    'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: url })
  })
  t.match(await svc(['push'], { cwd, env: { SVC_DEPLOY_TOKEN: 'x' } }), { code: 0 })
  t.same(asked, [
    'GET /api/deploy/check',
    'GET /api/logs',
    'POST /api/deploy/upload',
    'GET /api/logs/dep_1',
    'GET /api/audit/checkpoint'
  ])
})

t.test('explains a wrong protocol and a refusing proxy', async t => {
  const plain = createServer((_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  ).listen(0, '127.0.0.1')
  const identity = makeCertificate({ names: ['127.0.0.1'] })
  const secure = createSecureServer({ cert: identity.cert, key: identity.key }, (_, response) => response.end()).listen(
    0,
    '127.0.0.1'
  )
  const proxy = createServer((request, response) => {
    request.resume()
    const { status, headers = {} } = proxied as Answer
    response.writeHead(status, { 'content-type': 'text/html', ...headers }).end('<h1>No</h1>')
  }).listen(0, '127.0.0.1')
  type Answer = { status: number; headers?: Record<string, string>; cure: RegExp }
  const answers: Answer[] = [
    {
      status: 401,
      headers: { 'www-authenticate': 'Basic realm="staging"' },
      cure: /answered 401 \(Unauthorized\)\. It requires its own user name and password\. Turn off its login for paths below \/api/
    },
    { status: 413, cure: /answered 413 \(Payload Too Large\)\. It refuses uploads of this size\. Raise its limit/ },
    { status: 502, cure: /answered 502 \(Bad Gateway\)\. It cannot reach svc\. Check that the svc server is running/ }
  ]
  /** What the proxy answers now: a push asks again after some of them. */
  let proxied: Answer | undefined
  await Promise.all(
    [plain, secure, proxy].map(async server => {
      t.teardown(() => server.close())
      await once(server, 'listening')
    })
  )
  const [plainPort, securePort, proxyPort] = [plain, secure, proxy].map(
    server => (server.address() as AddressInfo).port
  )
  const cwd = t.testdir({ 'index.html': 'x', 'svc.config.json': JSON.stringify({ projectId: 'proj_1' }) })
  const push = (server: string) => svc(['push', '--server', server], { cwd, env: { SVC_DEPLOY_TOKEN: 'x' } })

  const cases: Array<[server: string, cure: RegExp]> = [
    [
      `https://127.0.0.1:${plainPort}`,
      new RegExp(`does not speak TLS on that port. For plain HTTP, use "http://127.0.0.1:${plainPort}"`)
    ],
    [`http://127.0.0.1:${securePort}`, /expects TLS, use an address with https:\/\//],
    ...answers.map(({ cure }) => [`http://127.0.0.1:${proxyPort}`, cure] as [string, RegExp])
  ]
  for (const [server, cure] of cases) {
    proxied = answers.find(answer => answer.cure === cure)
    const ended = await push(server)
    t.match(ended, { code: 1, stdout: '', stderr: cure }, server)
    t.notMatch(ended.stderr, /Packing|may have begun|were sent/, server)
  }
})
