import t from 'tap'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('a deployer pushes to its project with its own token, and is refused the rest', async t => {
  const cwd = t.testdir({ build: { 'index.html': 'new' } })
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const blog = await server.createProject({ name: 'blog', deployPath: join(cwd, 'blog') })
  const at = { SVC_SERVER_URL: server.url }
  const admin = { cwd, env: { ...at, SVC_TOKEN: server.adminToken } }
  const made = await svc(
    ['token', 'create', 'ci-shop', '--role', 'deployer', '--project', 'shop', '--days', '30'],
    admin
  )
  t.match(made, {
    code: 0,
    stdout: /^svc_[a-z2-7]{8}_[\w-]{43}_[\w-]{6}\n$/,
    stderr: /Token "ci-shop": deployer of shop, expires in (29|30) days\n.*shown only now/
  })
  const token = made.stdout.trim()
  for (const variable of ['SVC_TOKEN', 'SVC_DEPLOY_TOKEN']) {
    const own = { cwd, env: { ...at, [variable]: token } }
    t.match(await svc(['push', '--project', shop.id, '--out', 'build'], own), { code: 0 }, variable)
    t.match(await svc(['push', '--project', blog.id, '--out', 'build'], own), { code: 1, stderr: /not found/ })
    t.match(await svc(['list'], own), { code: 0, stdout: /shop/ })
    t.notMatch((await svc(['list'], own)).stdout, /blog/)
    t.match(await svc(['token', 'list'], own), { code: 1, stderr: /has the role "deployer"\. .* requires .* "admin"/ })
    t.match(await svc(['whoami'], own), { code: 0, stdout: /token "ci-shop": deployer of shop, expires in \d+ days/ })
  }
  t.match(await server.api('GET', `/api/logs?projectId=${shop.id}`), [
    { actor: 'token:ci-shop' },
    { actor: 'token:ci-shop' }
  ])

  const cut = await svc(['list'], { cwd, env: { ...at, SVC_TOKEN: token.slice(0, 50) } })
  t.match(cut, { code: 1, stderr: /The token from .*SVC_TOKEN.* is not complete: it is cut off: it has 50 of 63/ })
  t.notMatch(cut.stderr, token.slice(0, 50))
})

t.test('refuses wrong options before it asks the server', async t => {
  const cwd = t.testdir({})
  const create = (...words: string[]) => svc(['token', 'create', 'x', ...words], { cwd })
  t.match(await create(), { code: 2, stderr: /role is missing: use --role with one of viewer, deployer/ })
  t.match(await create('--role', 'owner'), { code: 2, stderr: /--role/ })
  t.match(await create('--role', 'viewer', '--out', 'a', '--json'), { code: 2, stderr: /not both/ })
  t.match(await create('--role', 'viewer', '--days', '0'), { code: 2, stderr: /--days/ })
})

t.test('a login stores a named token', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const { stdout: token } = await svc(['token', 'create', 'ana', '--role', 'operator'], admin)
  const home = { SVC_HOME: join(cwd, 'client') }
  const login = await svc(['login', '--server', server.url, '--token', '-'], { cwd, env: home, input: token })
  t.match(login, { code: 0, stdout: /with the token "ana" \(operator\)/ })
  t.match(await svc(['whoami'], { cwd, env: home }), { code: 0, stdout: /token "ana": operator of all projects/ })
})

t.test('lists tokens with their rights, their end and their last use, never a secret', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  t.match(await svc(['token', 'list'], admin), { code: 0, stdout: '', stderr: /There are no named tokens/ })
  const made = await svc(['token', 'create', 'ci-shop', '--role', 'deployer', '--project', 'shop'], admin)
  const secret = made.stdout.trim()
  t.match((await svc(['token', 'list'], admin)).stdout, /^ci-shop +deployer +shop +expires in (89|90) days +never$/m)
  await svc(['list'], { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: secret } })
  const { stdout } = await svc(['token', 'list'], admin)
  t.match(stdout, /^ci-shop .* (now|\d+s ago) from 127\.0\.0\.1$/m)
  const json = await svc(['token', 'list', '--json'], admin)
  t.match(JSON.parse(json.stdout), { items: [{ name: 'ci-shop' }], builtIn: [{ kind: 'admin' }, { kind: 'project' }] })
  t.notMatch(stdout + json.stdout, secret.slice(13))
})

t.test('replaces a secret, with an overlap if one is given', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const at = { SVC_SERVER_URL: server.url }
  const admin = { cwd, env: { ...at, SVC_TOKEN: server.adminToken } }
  const works = async (token: string) => (await svc(['list'], { cwd, env: { ...at, SVC_TOKEN: token } })).code === 0
  const first = (await svc(['token', 'create', 'ci', '--role', 'viewer'], admin)).stdout.trim()
  const overlapping = await svc(['token', 'rotate', 'ci', '--overlap', '1h', '--days', '7'], admin)
  t.match(overlapping, {
    code: 0,
    stderr: /Token "ci" expires in [67] days\. The earlier secret is valid until 20.* UTC/
  })
  const second = overlapping.stdout.trim()
  t.same([await works(first), await works(second)], [true, true])
  const last = await svc(['token', 'rotate', 'ci'], admin)
  t.match(last, { code: 0, stderr: /The earlier secret has ended/ })
  t.same([await works(first), await works(second), await works(last.stdout.trim())], [false, false, true])
  t.match(await svc(['token', 'rotate', 'ci', '--overlap', '2d'], admin), { code: 2, stderr: /at most 1d/ })
})

t.test('a revocation names what the token has started that still waits', async t => {
  const cwd = t.testdir({ dist: { 'a.txt': 'one' } })
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'files') })
  const at = { SVC_SERVER_URL: server.url }
  const admin = { cwd, env: { ...at, SVC_TOKEN: server.adminToken } }
  const tokenOf = async (name: string) =>
    (await svc(['token', 'create', name, '--role', 'deployer'], admin)).stdout.trim()
  const inDays = new Date(Date.now() + 9 * 86_400_000).toISOString().slice(0, 16)
  const push = async (token: string) => {
    const env = { ...at, SVC_DEPLOY_TOKEN: token }
    t.equal((await svc(['push', '--out', 'dist', '--project', shop.id, '--at', `${inDays}Z`], { cwd, env })).code, 0)
    return ((await server.deployments(shop.id))[0] as { id: string }).id
  }
  const waiting = await push(await tokenOf('robot'))
  await push(await tokenOf('other'))
  const revoked = await svc(['token', 'revoke', 'robot', '--yes'], admin)
  t.match(revoked, { code: 0, stdout: 'The token "robot" was revoked\n' })
  t.equal(revoked.stderr, `warning: ${waiting} of shop, which it has started, still waits: svc cancel ${waiting}\n`)

  const own = (await svc(['token', 'create', 'café', '--role', 'admin'], admin)).stdout.trim()
  const itself = await svc(['token', 'revoke', 'cafe\u0301', '--yes'], { cwd, env: { ...at, SVC_TOKEN: own } })
  t.match(
    itself,
    { code: 0, stdout: 'The token "café" was revoked\n', stderr: /is not known/ },
    'it cannot ask any more'
  )
})

t.test('ends a token after a confirmation', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const at = { SVC_SERVER_URL: server.url }
  const admin = { cwd, env: { ...at, SVC_TOKEN: server.adminToken } }
  const token = (await svc(['token', 'create', 'ci', '--role', 'viewer'], admin)).stdout.trim()
  t.match(await svc(['token', 'revoke', 'ci'], admin), { code: 1, stderr: /use --yes/ })
  t.match(await svc(['token', 'revoke', 'ci', '--yes'], admin), { code: 0, stdout: 'The token "ci" was revoked\n' })
  const refused = await svc(['list'], { cwd, env: { ...at, SVC_TOKEN: token } })
  t.match(refused, { code: 1, stderr: /The token "ci" was revoked/ })
  t.match(await svc(['token', 'revoke', 'ci', '--yes'], admin), { code: 1, stderr: /was revoked\. Create another one/ })
  t.match((await svc(['token', 'list'], admin)).stdout, /^ci .* revoked /m)
})

t.test('lists which tokens can deploy where, never a secret', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
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
  const server = await startServe(t, cwd)
  const { token } = await server.api<{ token: string }>('POST', '/api/tokens', { name: 'ops', role: 'operator' })
  const refused = await svc(['access', 'report'], { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: token } })
  t.match(refused, { code: 1, stdout: '', stderr: /has the role "operator"/ })
})
