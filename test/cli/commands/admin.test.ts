import t from 'tap'
import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { codeOf } from '../../../lib/access/second-factor.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

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
