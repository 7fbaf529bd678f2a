import t from 'tap'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { listen } from '../../support/on-loopback.js'

t.test('svc api', async t => {
  const stage = await startServer(t, { base: '/svc' })
  const shop = await stage.createProject('shop')
  const cwd = stage.sites
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  const api = (words: string[], input?: string) =>
    svc(['api', ...words], { cwd, env, ...(input !== undefined && { input }) })

  await t.test('prints an answer as it was received, below the base path', async t => {
    t.match(stage.url, /\/svc$/)
    const { code, stdout, stderr } = await api(['GET', '/api/projects'])
    t.match({ code, stderr }, { code: 0, stderr: '' })
    t.match(stdout, /^\[\{"id":"proj_\w+",/)
    t.match(JSON.parse(stdout), [{ id: shop.id, name: 'shop' }])
    const limited = await api(['get', '/api/audit?limit=1&action=project.create'])
    t.match(JSON.parse(limited.stdout), { items: [{ action: 'project.create' }] })
  })

  await t.test('sends a body from the command line and from standard input', async t => {
    const lock = ['PUT', `/api/projects/${shop.id}/lock`, '--data']
    t.match(JSON.parse((await api([...lock, '{"reason": "audit"}'])).stdout), { lock: { reason: 'audit' } })
    const renewed = await api([...lock, '-'], '{"reason": "longer", "renew": true}\n')
    t.match(JSON.parse(renewed.stdout), { lock: { reason: 'longer' } })
    t.match(await api(['DELETE', `/api/projects/${shop.id}/lock`]), { code: 0 })
    const { body } = await stage.client.get('/api/locks')
    t.same(body, [])
  })

  await t.test('a refusal of the server is its own sentence, and no field of it becomes an operand', async t => {
    const unknown = await api(['GET', '/api/projects/proj_none'])
    t.match(unknown, { code: 1, stdout: '', stderr: /^error: Project not found: "proj_none"\n$/ })
    const drift = await api(['GET', `/api/projects/${shop.id}/drift/file`])
    t.match(drift, { code: 1, stdout: '', stderr: /"path"/ })
    const wrong = await svc(['api', 'GET', '/api/projects', '--token', 'wrong-token-0123'], { cwd, env })
    t.match(wrong, { code: 1, stdout: '' })
    t.notMatch(wrong.stderr, 'wrong-token-0123')
  })

  await t.test('prints JSON lines and downloads as they are', async t => {
    const { code, stdout } = await api(['GET', '/api/audit/export'])
    t.equal(code, 0)
    t.ok(stdout.endsWith('\n'))
    const lines = stdout.trimEnd().split('\n')
    t.ok('checkpoint' in (JSON.parse(lines.at(-1) as string) as object))
    t.match(JSON.parse(lines[1] as string), { entry: { action: 'project.create' } })
    const file = join(cwd, 'shop.log')
    writeFileSync(file, 'one\r\ntwo without an end')
    const body = JSON.stringify({ items: [{ filePath: file }] })
    const added = JSON.parse((await api(['POST', `/api/projects/${shop.id}/log-sources`, '--data', body])).stdout)
    const { id } = (added as { items: [{ id: string }] }).items[0]
    const log = await api(['GET', `/api/log-sources/${id}/download`])
    t.match(log, { code: 0, stdout: 'one\r\ntwo without an end' })
  })

  await t.test('shows JSON with indents on a terminal', { skip: noTerminal }, async t => {
    const { code, text } = await svcOnTerminal(['api', 'GET', '/api/projects'], [], { cwd, env })
    t.equal(code, 0)
    t.match(text, /^\[\r\n {2}\{\r\n {4}"id": "proj_/)
    t.notMatch(text, adminToken)
  })

  await t.test('refuses what is no request to the API before it asks for anything', async t => {
    const refused: Array<[words: string[], says: RegExp]> = [
      [['HEAD', '/api/projects'], /Unknown method "HEAD": choose one of GET, POST, PUT, PATCH, DELETE/],
      [['GET', '/metrics'], /not one of the API/],
      [['GET', 'api/projects'], /not one of the API/],
      [['GET', '/api/../metrics'], /not one of the API/],
      [['GET', '/api/%2e%2e/metrics'], /not one of the API/],
      [['GET', '/api/projects', '--data', '{}'], /A GET has no body/],
      [['POST', '/api/projects', '--data', '{name}'], /--data is not JSON/],
      [['GET'], /<path> is missing/]
    ]
    for (const [words, says] of refused)
      t.match(await api(words), { code: 2, stdout: '', stderr: says }, words.join(' '))
  })
})

t.test('svc api tells the page of another program, and an answer that breaks off', async t => {
  const server = createServer((request, response) => {
    if (request.url === '/api/page') response.setHeader('content-type', 'text/html').end('<p>hello')
    else
      response.writeHead(200, { 'content-type': 'application/x-ndjson' }).write('{"event":"log"}\n', () => {
        setImmediate(() => response.destroy())
      })
  })
  const port = await listen(t, server)
  const options = { cwd: t.testdir({}), env: { SVC_SERVER_URL: `http://127.0.0.1:${port}`, SVC_TOKEN: adminToken } }
  t.match(await svc(['api', 'GET', '/api/page'], options), { code: 1, stdout: '', stderr: /is not an svc server/ })
  const broken = await svc(['api', 'GET', '/api/stream'], options)
  t.match(broken, { code: 1, stdout: '{"event":"log"}\n', stderr: /The connection to the server was lost/ })
})
