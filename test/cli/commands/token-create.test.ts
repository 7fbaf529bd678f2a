import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('a deployer pushes to its project with its own token, and is refused the rest', async t => {
  const cwd = t.testdir({ build: { 'index.html': 'new' } })
  const server = await startServeProcess(t, cwd)
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
  const server = await startServeProcess(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const { stdout: token } = await svc(['token', 'create', 'ana', '--role', 'operator'], admin)
  const home = { SVC_HOME: join(cwd, 'client') }
  const login = await svc(['login', '--server', server.url, '--token', '-'], { cwd, env: home, input: token })
  t.match(login, { code: 0, stdout: /with the token "ana" \(operator\)/ })
  t.match(await svc(['whoami'], { cwd, env: home }), { code: 0, stdout: /token "ana": operator of all projects/ })
})
