import t from 'tap'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { urlOf } from '../../support/on-loopback.js'

const top = t.testdir({ one: {}, two: {} })
const started = Promise.all([startServe(t, join(top, 'one')), startServe(t, join(top, 'two'))])
const read = (cwd: string) => JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as Record<string, unknown>

t.test('login asks a server that is not svc whether it is the admin token', async t => {
  const other = createServer((request, response) => {
    if (request.url !== '/api/auth/login')
      return void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')
    request.setEncoding('utf8').on('data', (body: string) => {
      const success = (JSON.parse(body) as { token: string }).token === 'the-admin-token'
      const answer = { success, message: success ? 'ok' : 'wrong token' }
      response.writeHead(success ? 200 : 401, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
  const server = await urlOf(t, other)
  const cwd = t.testdir({})
  t.match(await svc(['login', '--server', server, '--token', '-'], { cwd, input: 'another-token' }), {
    code: 1,
    stderr: /does not accept it as the admin token, and cannot check other tokens/
  })
  t.match(await svc(['login', '--server', server, '--token', '-'], { cwd, input: 'the-admin-token' }), { code: 0 })
  t.match(read(cwd), { token: 'the-admin-token', tokenOrigin: server })
})

t.test('login checks and stores a token for its server, and logout removes it', async t => {
  const [server] = await started
  const project = await server.createProject({ name: 'shop', deployPath: join(top, 'shop') })
  const cwd = t.testdir({})
  t.match(await svc(['login', '--server', server.url], { cwd }), {
    code: 1,
    stderr: /no terminal to ask on: use --token/
  })
  const wrong = await svc(['login', '--server', server.url, '--token', '-'], { cwd, input: 'a-wrong-token' })
  t.match(wrong, { code: 1, stdout: '', stderr: /The token is not valid here/ })
  t.throws(() => read(cwd), 'nothing is stored')

  const admin = await svc(['login', '--server', server.url, '--token', '-'], { cwd, input: server.adminToken })
  t.match(admin, { code: 0, stdout: `Logged in to ${server.url} with the admin token` })
  t.notMatch(admin.stdout + admin.stderr, server.adminToken)
  t.strictSame(read(cwd), { token: server.adminToken, tokenOrigin: server.url, serverUrl: server.url })
  t.equal(statSync(join(cwd, '.svc/config.json')).mode & 0o777, 0o600)
  t.match(await svc(['ls'], { cwd }), { code: 0, stdout: /shop/ }, 'no option is needed from now on')

  const deploy = await svc(['login', '--token', '-'], { cwd, input: project.token })
  t.match(deploy, { code: 0, stdout: `with the deploy token of shop (${project.id})` })
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: project.id, serverUrl: server.url }))
  const mine = await svc(['whoami'], { cwd })
  t.match(mine, { code: 0, stdout: new RegExp(`admin token, from .*\\n.*deploy token of shop \\(${project.id}\\)`) })

  const config = JSON.parse((await svc(['config:list', '--json'], { cwd })).stdout) as Record<string, string>
  t.match(config, { token: /^\*\*\*\*/ })
})

t.test('login finds the server of its own data directory, and needs no token', async t => {
  const cwd = t.testdir({ elsewhere: {} })
  const server = await startServe(t, cwd, ['--host', '0.0.0.0'])
  const env = { SVC_HOME: server.home }
  const port = new URL(server.url).port
  const url = `http://127.0.0.1:${port}`
  const { code, stdout, stderr } = await svc(['login'], { cwd, env })
  t.equal(code, 0, stderr)
  t.match(stdout, `Logged in to ${url} with the admin token`)
  t.notMatch(stdout + stderr, server.adminToken)
  const stored = JSON.parse(readFileSync(join(server.home, 'config.json'), 'utf8')) as object
  t.match(stored, { token: server.adminToken, tokenOrigin: url, serverUrl: url })
  t.match(await svc(['list'], { cwd, env }), { code: 0 })
  t.match(await svc(['login', '--server', `${url}/`], { cwd, env }), { code: 0 }, 'also if it is named')
  const log = await server.api<{ items: Array<{ actor: string }> }>('GET', '/api/audit?action=auth.login')
  t.same(
    log.items.map(({ actor }) => actor),
    ['local', 'local']
  )

  const askingFor = { code: 1, stderr: /use --token/ }
  t.match(await svc(['login', '--server', `http://localhost:${port}`], { cwd, env }), askingFor, 'another origin')
  t.match(await svc(['login', '--server', url], { cwd: join(cwd, 'elsewhere') }), askingFor, 'another data directory')
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: 'proj_1', serverUrl: 'http://127.0.0.2:1' }))
  t.match(await svc(['login'], { cwd, env }), askingFor, 'a checkout that names another server does not get the token')
})

t.test('two servers keep their tokens apart', async t => {
  const [one, two] = await started
  const cwd = t.testdir({})
  for (const server of [one, two]) {
    t.match(await svc(['login', '--server', server.url, '--token', '-'], { cwd, input: server.adminToken }), {
      code: 0
    })
  }
  t.match(read(cwd), { token: one.adminToken, serverUrl: one.url, adminTokens: { [two.url]: two.adminToken } })
  for (const server of [one, two]) {
    t.match(await svc(['list', '--server', server.url], { cwd }), { code: 0 })
    const { stdout } = await svc(['whoami', '--server', server.url, '--json'], { cwd })
    t.match(JSON.parse(stdout), { server: server.url, tokens: [{ role: 'admin', problem: null }] })
  }
  t.notMatch((await svc(['config:list'], { cwd })).stdout, two.adminToken)
  t.match(await svc(['logout', '--server', two.url], { cwd }), { code: 0, stdout: /Removed .*: admin token/ })
  t.match(await svc(['list', '--server', two.url], { cwd }), { code: 1, stderr: /was not sent/ })
  t.match(await svc(['logout'], { cwd }), { code: 0, stdout: /Removed/ })
  t.strictSame(read(cwd), { serverUrl: one.url })
  t.match(await svc(['logout'], { cwd }), { code: 0, stdout: /No tokens are stored/ })
  t.match(await svc(['whoami'], { cwd }), { code: 1, stdout: /no token\. Use "svc login" to store/ })
})

t.test('a global deploy token needs a project', async t => {
  const [, server] = await started
  const token = 'a-global-deploy-token-for-1-test'
  await server.api('PUT', '/api/settings', { global_deploy_token: token })
  const cwd = t.testdir({})
  const words = ['login', '--server', server.url, '--token', '-']
  t.match(await svc(words, { cwd, input: token }), { code: 2, stderr: /--project/ })
  t.match(await svc([...words, '--project', 'proj_1'], { cwd, input: token }), {
    code: 0,
    stdout: /global deploy token, for proj_1/
  })
  t.match(read(cwd), { projectToken: { proj_1: token }, projectTokenOrigin: { proj_1: server.url } })
})

t.test(
  'login asks on a terminal, again after a bad address, and never shows the token',
  { skip: noTerminal },
  async t => {
    const [server] = await started
    const cwd = t.testdir({})
    const { code, text } = await svcOnTerminal(
      ['login'],
      [
        { see: 'Server address [http://127.0.0.1:5431]: ', type: 'nonsense\r' },
        { see: '"nonsense" is not an address', type: '' },
        { see: 'Server address [http://127.0.0.1:5431]: ', type: 'http://127.0.0.1:1\r' },
        { see: 'connection refused by http://127.0.0.1:1', type: '' },
        { see: 'Server address [http://127.0.0.1:1]: ', type: `${server.url}\r` },
        { see: `Token for ${server.url}: `, type: `${server.adminToken}\r` }
      ],
      { cwd }
    )
    t.equal(code, 0, text)
    t.notMatch(text, server.adminToken)
    t.match(read(cwd), { token: server.adminToken, tokenOrigin: server.url })
  }
)

const here = 'http://127.0.0.1:5431'

/** A directory whose global configuration is this. */
function directoryWith(directory: string, config: object): { cwd: string; config(): unknown } {
  const path = join(directory, '.svc/config.json')
  mkdirSync(join(directory, '.svc'), { mode: 0o700 })
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 })
  return { cwd: directory, config: () => JSON.parse(readFileSync(path, 'utf8')) as unknown }
}

t.test('logout removes only the token of the server', async t => {
  const { cwd, config } = directoryWith(t.testdir({}), { serverUrl: here, token: 'admin-token-1', tokenOrigin: here })
  const ended = await svc(['logout'], { cwd })
  t.match(ended, { code: 0, stderr: '' })
  t.match(ended.stdout, here)
  t.notMatch(ended.stdout, 'admin-token-1')
  t.strictSame(config(), { serverUrl: here })
  t.match(await svc(['logout'], { cwd }), { code: 0, stdout: here }, 'without a token it says so')
})

t.test('logout keeps the tokens of other servers', async t => {
  const stored = { serverUrl: here, token: 'admin-token-1', tokenOrigin: 'https://other.example' }
  const { cwd, config } = directoryWith(t.testdir({}), stored)
  t.match(await svc(['logout'], { cwd }), { code: 0 })
  t.strictSame(config(), stored)
})

t.test('each token is checked, and one valid token is enough', async t => {
  const { url, createProject, sites } = await startServer(t)
  const project = await createProject('shop')
  const ask = (env: Record<string, string>) =>
    svc(['whoami', '--json'], { cwd: sites, env: { SVC_SERVER_URL: url, ...env } })

  const both = await ask({ SVC_TOKEN: 'a-wrong-token-0123456789', SVC_DEPLOY_TOKEN: project.token })
  t.equal(both.code, 0, both.stderr)
  const { server, tokens } = JSON.parse(both.stdout) as { server: string; tokens: object[] }
  t.equal(server, url)
  t.match(tokens, [
    { kind: 'admin', from: /SVC_TOKEN/, role: null, problem: String },
    { kind: 'deploy', role: 'project', project: { id: project.id, name: 'shop' }, problem: null }
  ])
  t.notMatch(both.stdout, project.token)

  const admin = await ask({ SVC_TOKEN: adminToken })
  t.match(JSON.parse(admin.stdout), { tokens: [{ kind: 'admin', role: 'admin', project: null, problem: null }] })
  t.match(await ask({ SVC_TOKEN: 'a-wrong-token-0123456789' }), { code: 1 }, 'no valid token')
  t.match(await ask({}), { code: 1 }, 'no token at all')
})
