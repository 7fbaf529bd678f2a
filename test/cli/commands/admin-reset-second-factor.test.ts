import t from 'tap'
import { codeOf } from '../../../lib/auth/totp.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('removes the second factor of a token through the data directory', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
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
