import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('lists which tokens can deploy where, never a secret', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })
  await server.api('PUT', '/api/settings', {
    global_deploy_token: 'the-global-deploy-token-1',
    token_rotate_days: '30'
  })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const create = (...words: string[]) => svc(['token', 'create', ...words], admin)
  const { stdout: secret } = await create('ci', '--role', 'deployer', '--project', 'shop', '--ip', '127.0.0.0/8')
  await create('ops', '--role', 'operator')
  await create('boss', '--role', 'viewer')

  const report = await svc(['access', 'report'], admin)
  t.match(report, { code: 0, stderr: /1 more token can only read/ })
  t.match(report.stderr, 'An upload can run scripts on the server in: forum, shop')
  const lines = report.stdout.trim().split('\n').slice(1)
  const expected = [
    /^every project +admin token +- +no end +(now|\d+s ago) +anywhere/,
    /^every project +global deploy token +- +no end +never +anywhere/,
    /^every project +ops +operator +expires in (89|90) days +never +anywhere/,
    /^forum +deploy token +- +no end +never/,
    /^shop +ci +deployer +expires in (89|90) days +never +127\.0\.0\.0\/8/,
    /^shop +deploy token /
  ]
  t.equal(lines.length, expected.length, report.stdout)
  for (const [index, line] of expected.entries()) t.match(lines[index], line)

  const json = await svc(['access', 'report', '--json'], admin)
  t.match(JSON.parse(json.stdout), { rotateDays: 30, tokens: { length: 3 }, projects: { length: 2 } })
  for (const text of [secret.trim(), shop.token, 'the-global-deploy-token-1'])
    t.notMatch(report.stdout + json.stdout, text)
})

t.test('is refused for a role below admin', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const { token } = await server.api<{ token: string }>('POST', '/api/tokens', { name: 'ops', role: 'operator' })
  const refused = await svc(['access', 'report'], { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: token } })
  t.match(refused, { code: 1, stdout: '', stderr: /has the role "operator"/ })
})
