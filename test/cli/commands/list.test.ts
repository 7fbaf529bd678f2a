import t from 'tap'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('list', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const flags = ['--server', server.url, '--token', '-']
  const options = { cwd, input: server.adminToken }

  t.match(await svc(['list', ...flags], options), { code: 0, stdout: '', stderr: /There are no projects yet/ })
  t.strictSame(JSON.parse((await svc(['list', '--json', ...flags], options)).stdout), [])

  const project = await server.createProject({ name: '漢字 shop', deployPath: join(cwd, 'www') })
  await server.createProject({ name: 'other', deployPath: join(cwd, 'www2') })

  await t.test('shows every project, aligned', async t => {
    const { code, stdout } = await svc(['list', ...flags], options)
    t.equal(code, 0)
    const [head, first, second] = stdout.split('\n')
    t.match(head, /^PROJECT +NAME +STATUS +ENV +LAST DEPLOYED +LAST MESSAGE +COMMIT +TARGET$/)
    t.match(first, /other +idle +production/)
    t.match(second, new RegExp(`^${project.id}  漢字 shop  idle`))
  })

  await t.test('shows the last deployment of each project', async t => {
    const commit = '0123456789abcdef0123456789abcdef01234567'
    for (const [message, branch] of [
      ['The first', 'main'],
      ['Prices', 'fix']
    ]) {
      await (
        await server.upload(
          project,
          { 'a.txt': 'a' },
          { message: message as string, provenance: JSON.stringify({ commit, branch }) }
        )
      ).finished
    }
    const { stdout } = await svc(['list', ...flags], options)
    t.match(stdout, /漢字 shop +success .* Prices +0123456 fix /)
    t.notMatch(stdout, 'The first')
    t.match(JSON.parse((await svc(['list', '--json', ...flags], options)).stdout), [
      { name: 'other', lastDeployment: null },
      { lastDeployment: { message: 'Prices', provenance: { branch: 'fix', commit } } }
    ])
  })

  await t.test('--json masks the deploy tokens', async t => {
    const { stdout } = await svc(['list', '--json', ...flags], options)
    t.match(JSON.parse(stdout), [{ name: 'other' }, { id: project.id, token: `****${project.token.slice(-4)}` }])
    t.notMatch(stdout, project.token)
  })

  await t.test('takes address and token from the environment, from .env.local, and from the global file', async t => {
    t.equal((await svc(['list'], { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } })).code, 0)
    const local = t.testdir({ '.env.local': `SVC_SERVER_URL=${server.url}\nSVC_TOKEN=${server.adminToken}\n` })
    t.equal((await svc(['list'], { cwd: local })).code, 0)
    const config = JSON.stringify({ serverUrl: server.url, token: server.adminToken })
    const global = t.testdir({ '.svc': { 'config.json': config } })
    t.equal((await svc(['list'], { cwd: global })).code, 0)
  })

  await t.test('names the source of a refused token without showing it', async t => {
    const { code, stderr } = await svc(['list', '--server', server.url], { cwd, env: { SVC_TOKEN: 'a-wrong-token' } })
    t.equal(code, 1)
    t.match(stderr, /^error: .*\(the token came from SVC_TOKEN\)/)
    t.notMatch(stderr, 'a-wrong-token')
  })

  await t.test('uses colours if they are requested', async t => {
    t.match((await svc(['list', ...flags], { ...options, env: { FORCE_COLOR: '1' } })).stdout, '\x1b[1m')
    t.notMatch((await svc(['list', ...flags], options)).stdout, '\x1b')
  })

  await t.test('works with a server behind a prefix and reports a missing prefix', async t => {
    const inner = t.testdir({})
    const prefixed = await startServeProcess(t, inner, ['--base', 'a/b/'])
    t.match(prefixed.url, /\/a\/b$/)
    const env = { SVC_TOKEN: prefixed.adminToken }
    t.equal((await svc(['list', '--server', `${prefixed.url}/`], { cwd: inner, env })).code, 0)
    const { code, stderr } = await svc(['list', '--server', new URL(prefixed.url).origin], { cwd: inner, env })
    t.equal(code, 1)
    t.match(stderr, /^error: /)
  })
})
