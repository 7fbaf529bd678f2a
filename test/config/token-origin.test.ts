import t, { type Test } from 'tap'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { GlobalConfig } from '../../lib/config/home.js'
import { storeProjectTokens } from '../../lib/config/token-origin.js'
import { svc } from '../support/svc.js'
import { noTerminal, svcOnTerminal } from '../support/terminal.js'

const admin = 'the-admin-token-of-another-server'
const deploy = 'the-deploy-token-of-another-server'
const elsewhere = 'https://deploy.example.com'

/** A server that keeps what it is sent as `Authorization`, and lists no projects. */
async function startListener(t: Test, answer: { status?: number; location?: string } = {}): Promise<{ url: string; heard: Array<string | undefined> }> {
  const heard: Array<string | undefined> = []
  const server = createServer((request, response) => {
    heard.push(request.headers.authorization)
    request.resume()
    const { status = 200, location } = answer
    response.writeHead(status, { 'content-type': 'application/json', ...(location && { location }) }).end('[]')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard }
}

const global = (config: object) => ({ '.svc': { 'config.json': JSON.stringify(config) } })
const project = (serverUrl?: string) => ({ 'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl }), 'index.html': 'x' })
const read = (cwd: string) => JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as Record<string, unknown>

t.test('project tokens are stored with their server, and without one without an origin', async t => {
  const config: GlobalConfig = {}
  storeProjectTokens(config, { proj_1: 'one' }, undefined)
  t.strictSame(config, { projectToken: { proj_1: 'one' } })
  storeProjectTokens(config, { proj_2: 'two' }, 'https://deploy.example.com/svc/')
  t.strictSame(config, { projectToken: { proj_1: 'one', proj_2: 'two' }, projectTokenOrigin: { proj_2: elsewhere } })
  storeProjectTokens(config, { proj_2: 'other' }, undefined)
  t.strictSame(config, { projectToken: { proj_1: 'one', proj_2: 'other' } }, 'the old origin is not that of the new token')
})

t.test('a stored token is not sent to a server that a checkout names', async t => {
  const { url, heard } = await startListener(t)
  const stored = { serverUrl: elsewhere, token: admin, projectToken: { proj_1: deploy } }
  const attacks: Array<[what: string, files: object, env?: Record<string, string>]> = [
    ['svc.config.json', { ...project(url), ...global(stored) }],
    ['.env.local', { ...project(), '.env.local': `SVC_SERVER_URL=${url}\n`, ...global(stored) }],
    ['a token without any server: it is of the default address', { ...project(url), ...global({ token: admin, projectToken: { proj_1: deploy } }) }],
    ['an origin of its own', { ...project(), ...global({ ...stored, serverUrl: url, tokenOrigin: elsewhere, projectTokenOrigin: { proj_1: elsewhere } }) }],
    ['a global server that cannot be read', { ...project(url), ...global({ ...stored, serverUrl: 'deploy.example.com' }) }],
    ['a variable for the server alone', { ...project(), ...global(stored) }, { SVC_SERVER_URL: url }]
  ]
  for (const [what, files, env = {}] of attacks) {
    const cwd = t.testdir(files as never)
    // Each place with each of the two tokens; the first with every command.
    const isFirst = what === attacks[0]?.[0]
    const others = isFirst ? [['status'], ['logs', 'dep_1'], ['logs', '-f', 'dep_1'], ['cancel', 'dep_1'], ['tail', 'app.log'], ['rollback', '--yes']] : []
    for (const words of [['list'], ['push'], ...others]) {
      const { code, stderr } = await svc(words, { cwd, env })
      t.equal(code, 1, `${what}: ${words.join(' ')}`)
      t.match(stderr, new RegExp(`^error: The (admin|deploy) token .* was not sent to ${url}: it belongs to (https?://)?[\\w.:]+`, 'm'))
      t.notMatch(stderr, /the-(admin|deploy)-token/)
    }
    if (!isFirst) continue
    const { code, stdout } = await svc(['doctor'], { cwd, env })
    t.match(stdout, /Server, in detail: .*belongs to/, what)
    t.equal(typeof code, 'number')
  }
  t.same([...new Set(heard)], [undefined], 'nothing but probes without a token came')
})

t.test('a stored token is sent to its own origin, whatever the path', async t => {
  const { url, heard } = await startListener(t)
  const places = [
    { ...global({ serverUrl: `${url}/a`, token: admin }) },
    { ...project(`${url}/prefix/b`), ...global({ serverUrl: `${url}/a`, token: admin }) },
    { ...project(url), ...global({ serverUrl: elsewhere, token: admin, tokenOrigin: url }) },
    { ...project(url), ...global({ serverUrl: elsewhere, token: admin, tokenOrigin: `${url.toUpperCase()}/path/` }) }
  ]
  for (const files of places) t.equal((await svc(['list'], { cwd: t.testdir(files as never) })).code, 0)
  t.same(heard, places.map(() => `Bearer ${admin}`))
})

t.test('a token that the user gives with the command goes where the command goes', async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({ ...project(url), ...global({ serverUrl: elsewhere, token: admin }) })
  t.equal((await svc(['list', '--token', 'given'], { cwd })).code, 0)
  t.equal((await svc(['list'], { cwd, env: { SVC_TOKEN: 'set' } })).code, 0)
  t.same(heard, ['Bearer given', 'Bearer set'])
})

t.test('on a terminal another origin is asked for', { skip: noTerminal }, async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({ ...project(url), ...global({ serverUrl: elsewhere, token: admin }) })
  const question = `to ${url}? [y/N]: `
  const no = await svcOnTerminal(['list'], [{ see: question, type: '\r' }], { cwd })
  t.match(no, { code: 1, text: /was not sent/ })
  t.same(heard, [])
  const yes = await svcOnTerminal(['list'], [{ see: question, type: 'y\r' }], { cwd })
  t.match(yes, { code: 0, text: new RegExp(`belongs to ${elsewhere}`) })
  t.same(heard, [`Bearer ${admin}`])
  t.notMatch(yes.text, admin)
})

t.test('config:set token stores the origin that it says', async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({ ...project(url), ...global({ serverUrl: elsewhere }) })
  const asDeploy = await svc(['config:set', 'token', '-'], { cwd, input: deploy })
  t.match(asDeploy.stdout, `for ${url} (`)
  const asAdmin = await svc(['config:set', '--global', 'token', '-'], { cwd, input: admin })
  t.match(asAdmin.stdout, `for ${elsewhere} (`, 'what a checkout names says nothing of the admin token')
  t.match(read(cwd), { projectToken: { proj_1: deploy }, projectTokenOrigin: { proj_1: url }, tokenOrigin: elsewhere })

  t.equal((await svc(['list'], { cwd })).code, 1)
  const named = await svc(['config:set', '--global', 'token', '-', '--server', `${url}/prefix`], { cwd, input: admin })
  t.match(named.stdout, `for ${url} (`)
  t.equal((await svc(['list'], { cwd })).code, 0)
  await svc(['push'], { cwd })
  t.same(heard, [`Bearer ${admin}`, `Bearer ${deploy}`, `Bearer ${deploy}`], 'a push asks first')

  t.match(await svc(['config:set', 'outputDir', 'x', '--server', url], { cwd }), { code: 2, stderr: /--server/ })
})

t.test('a token stored before any server is known belongs to the global one, once there is one', async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({})
  await svc(['config:set', 'token', '-'], { cwd, input: admin })
  await svc(['config:set', 'serverUrl', url], { cwd })
  t.equal((await svc(['list'], { cwd })).code, 0)
  t.same(heard, [`Bearer ${admin}`])
})

t.test('init binds the token to the server it asks for, in either store', async t => {
  const { url, heard } = await startListener(t)
  const words = ['init', '--project', 'proj_1', '--token', deploy, '--force', '--server']
  for (const store of ['global', 'local']) {
    const cwd = t.testdir({ 'index.html': 'x', ...global({ serverUrl: url }) })
    await svc([...words, elsewhere, '--token-store', store], { cwd })
    const moved = await svc(['push', '--server', url], { cwd })
    t.match(moved, { code: 1, stderr: new RegExp(`was not sent to ${url}: it belongs to ${elsewhere}`) }, store)
    await svc([...words, url, '--token-store', store], { cwd })
    await svc(['push'], { cwd })
  }
  t.same(heard, [1, 2, 3, 4].map(() => `Bearer ${deploy}`), 'each push asks first')
})

t.test('config says where each token may go', async t => {
  const cwd = t.testdir({ ...project('https://other.example.com'), ...global({ serverUrl: elsewhere, token: admin }) })
  const { stdout, stderr } = await svc(['config'], { cwd, env: { SVC_DEPLOY_TOKEN: deploy } })
  t.match(stdout, /adminToken +\*\*\*\*rver +global .* https:\/\/deploy\.example\.com$/m)
  t.match(stdout, /deployToken +\*\*\*\*rver +environment +SVC_DEPLOY_TOKEN +any server$/m)
  t.match(stderr, /warning: .*admin token.*is not sent to https:\/\/other\.example\.com/)
  const rows = JSON.parse((await svc(['config', '--json'], { cwd })).stdout) as Array<{ key: string }>
  t.match(rows.find(({ key }) => key === 'adminToken'), { value: '****rver', origin: elsewhere })
})

t.test('a redirect is not followed, with or without a token', async t => {
  for (const status of [301, 302, 303, 307, 308]) {
    const other = await startListener(t)
    const { url, heard } = await startListener(t, { status, location: `${other.url}/api/projects` })
    const cwd = t.testdir(project(url))
    const { code, stderr } = await svc(['list', '--token', 'given'], { cwd })
    t.equal(code, 1)
    t.match(stderr, /sends on to/)
    if (status === 301) {
      await svc(['push', '--token', 'given'], { cwd })
      await svc(['verify', '--check-server'], { cwd: t.testdir(global({ serverUrl: url })) })
    }
    t.same(heard, status === 301 ? ['Bearer given', 'Bearer given', undefined] : ['Bearer given'])
    t.same(other.heard, [])
  }
})
