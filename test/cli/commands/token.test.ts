import t from 'tap'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { svc } from '../../support/svc.js'
import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { codeOf } from '../../../lib/access/second-factor.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

t.test('a deployer pushes to its project with its own token, and is refused the rest', async t => {
  const { cwd, server, shop } = await serveShop(t, { build: { 'index.html': 'new' } })
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
  const { cwd, server, shop, admin } = await serveShop(t)
  await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })
  await server.api('PUT', '/api/settings', {
    global_deploy_token: 'the-global-deploy-token-1',
    token_rotate_days: '30'
  })
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

const tokenOf = (cwd: string) =>
  (JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as { adminToken: string }).adminToken
const strong = 'a-strong-admin-token-with-1-digit'

t.test('admin reset-password --random prints and stores a strong token', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': '{"serverUrl":"https://deploy.test"}' } })
  const { code, stdout, stderr } = await svc(['admin', 'reset-password', '--random'], { cwd })
  t.equal(code, 0)
  t.match(stdout, /^[\w-]{43}\n$/)
  t.equal(tokenOf(cwd), stdout.trim())
  t.notMatch(stderr, /warning/)
  t.match(readFileSync(join(cwd, '.svc/config.json'), 'utf8'), 'https://deploy.test')
})

t.test('admin reset-password reads the token from a flag, standard input or the environment', async t => {
  const ways: Array<[words: string[], options: { input?: string; env?: Record<string, string> }]> = [
    [['--password', strong], {}],
    [['--password', '-'], { input: `${strong}\n` }],
    [[], { env: { SVC_NEW_ADMIN_TOKEN: strong } }]
  ]
  for (const [words, options] of ways) {
    const cwd = t.testdir({})
    const { code, stdout, stderr } = await svc(['reset-password', ...words], { cwd, ...options })
    t.equal(code, 0, stderr)
    t.equal(stdout, '')
    t.equal(tokenOf(cwd), strong)
    t.notMatch(stderr, strong)
  }
})

t.test('admin reset-password warns about a weak token and about ADMIN_TOKEN, which overrides it', async t => {
  const cwd = t.testdir({ '.env.local': 'ADMIN_TOKEN=other\n' })
  const { code, stderr } = await svc(['admin', 'reset-password', '--password', 'weak-token'], { cwd })
  t.equal(code, 0)
  t.match(stderr, /warning: the token is weak: it has 10 characters/)
  t.match(stderr, /warning: ADMIN_TOKEN in .*\.env\.local overrides this token/)
  t.equal(tokenOf(cwd), 'weak-token')
})

t.test('admin reset-password asks twice on a terminal, without showing the token', { skip: noTerminal }, async t => {
  const cwd = t.testdir({})
  const asked = (second: string) =>
    svcOnTerminal(
      ['admin', 'reset-password'],
      [
        { see: 'New admin token: ', type: `${strong}\r` },
        { see: 'Repeat the token: ', type: `${second}\r` }
      ],
      { cwd }
    )
  const good = await asked(strong)
  t.equal(good.code, 0, good.text)
  t.notMatch(good.text, strong)
  t.equal(tokenOf(cwd), strong)
  const bad = await asked('something-else')
  t.equal(bad.code, 1)
  t.match(bad.text, /The two tokens differ: nothing was changed/)
  t.equal(tokenOf(cwd), strong)
})

t.test('a reset is in the audit log with and without a running server, and the token is not', async t => {
  const cwd = t.testdir({})
  const env = { SVC_HOME: join(cwd, 'server-home') }
  const reset = (token: string) => svc(['admin', 'reset-password', '--password', token], { cwd, env })
  const first = await reset('first-admin-token-0123456789')
  t.match(first, { code: 0, stderr: /The admin token was stored in .*config\.json\.\n/ })
  t.notOk(readdirSync(env.SVC_HOME).includes('svc.sock'), 'it let go of the directory')

  const server = await startServe(t, cwd)
  t.equal(server.adminToken, 'first-admin-token-0123456789')
  t.match(await reset('second-admin-token-0123456789'), { code: 0, stderr: /The running server already uses it/ })
  const audit = (token: string) =>
    fetch(`${server.url}/api/audit?action=auth.reset_token`, { headers: { authorization: `Bearer ${token}` } })
  t.equal((await audit('first-admin-token-0123456789')).status, 401)
  const text = await (await audit('second-admin-token-0123456789')).text()
  const entry = { action: 'auth.reset_token', actor: 'local', ip: null, ok: true, target: null, detail: null }
  t.match(JSON.parse(text), { items: [entry, entry] })
  t.notMatch(text, 'admin-token-0123456789')
})

const notRoot = process.getuid?.() !== 0 && 'only root can make what another user has made'

t.test(
  'admin reset-password tells the new token to no socket that another user has put in the place of the lock',
  { skip: notRoot },
  async t => {
    const cwd = t.testdir({})
    const home = join(cwd, 'long'.repeat(30))
    mkdirSync(home, { mode: 0o700 })
    const temporary = mkdtempSync(join(tmpdir(), 'svc-reset-'))
    t.teardown(() => rmSync(temporary, { recursive: true, force: true }))
    chmodSync(temporary, 0o1777)
    const place = join(temporary, `svc-${createHash('sha256').update(realpathSync(home)).digest('hex').slice(0, 16)}`)
    const thief = fork(fileURLToPath(new URL('../../support/thief.js', import.meta.url)), [place, '65534'], {
      execArgv: []
    })
    t.teardown(() => thief.kill())
    await once(thief, 'message')
    let heard = 0
    thief.on('message', () => heard++)
    const env = { SVC_HOME: home, TMPDIR: temporary, SVC_NEW_ADMIN_TOKEN: strong }
    for (const words of [
      ['admin', 'reset-password'],
      ['health'],
      ['export', '--out', join(cwd, 'a.zip')],
      ['serve', '--port', '0']
    ]) {
      const { code, stdout, stderr } = await svc(words, { cwd, env })
      t.equal(code, 1, words.join(' '))
      t.match(
        stderr,
        `the lock would be in "${place}", and "${place}" belongs to the user 65534. Remove it, or choose a shorter SVC_HOME`
      )
      t.notMatch(stdout + stderr, strong)
    }
    t.equal(heard, 0, 'nobody has connected')
  }
)

t.test('removes the second factor of a token through the data directory', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const at = { SVC_SERVER_URL: server.url }
  const token = (
    await svc(['token', 'create', 'ana', '--role', 'viewer'], { cwd, env: { ...at, SVC_TOKEN: server.adminToken } })
  ).stdout.trim()
  const ask = async (path: string, body: object, headers: Record<string, string> = {}) => {
    const all = { 'content-type': 'application/json', ...headers }
    return await fetch(`${server.url}${path}`, { method: 'POST', headers: all, body: JSON.stringify(body) })
  }
  const login = await ask('/api/auth/login', { token, session: true })
  const cookie = (login.headers.get('set-cookie') as string).split(';')[0] as string
  const { session } = (await login.json()) as { session: { csrf: string } }
  const headers = { cookie, 'x-svc-csrf': session.csrf }
  const { secret } = (await (await ask('/api/auth/second-factor', {}, headers)).json()) as { secret: string }
  const code = codeOf(secret, Math.floor(Date.now() / 30_000))
  t.equal((await ask('/api/auth/second-factor/confirm', { code }, headers)).status, 200)

  const own = { cwd, env: { ...at, SVC_TOKEN: token } }
  t.match(await svc(['list'], own), {
    code: 1,
    stderr: /has a second factor: it opens sessions of the panel and nothing else/
  })
  t.match(await svc(['admin', 'reset-second-factor', 'ANA'], { cwd, env: { SVC_HOME: server.home } }), {
    code: 0,
    stdout: 'The second factor of the token "ana" was removed\n'
  })
  t.match(await svc(['list'], own), { code: 0 })
  const none = await svc(['admin', 'reset-second-factor', 'ana'], { cwd, env: { SVC_HOME: server.home } })
  t.match(none, { code: 1, stderr: /has no second factor/ })
})
