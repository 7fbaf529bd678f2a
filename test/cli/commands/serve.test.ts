import t from 'tap'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('serve says where it listens, the admin token, and the data directory', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const stdout = server.said()
  t.match(stdout, /http:\/\/127\.0\.0\.1:\d+\/\n/)
  t.match(stdout, `Admin token: ${server.adminToken}\n`)
  t.match(stdout, `Data directory: ${server.home}\n`)
  t.equal((await fetch(`${server.url}/api/health`)).status, 200)
  t.equal(await server.stop(), 0)
})

t.test('serve takes the token of ADMIN_TOKEN, and warns of a weak one', async t => {
  const server = await startServeProcess(t, t.testdir({ '.env.local': 'ADMIN_TOKEN=weak-token\n' }))
  t.match(server.said(), 'Admin token: weak-token\n')
  await server.warns(/warning: .*weak/)
})

t.test('serve warns of an address that others can reach', async t => {
  const server = await startServeProcess(t, t.testdir({}), ['--host', '0.0.0.0'])
  await server.warns(/warning: 0\.0\.0\.0 can be reached from other machines/)
})

t.test('serve refuses a port, or a data directory, that is in use', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const port = new URL(server.url).port
  t.match(await svc(['serve', '--port', port], { cwd, env: { SVC_HOME: join(cwd, 'other-home') } }), {
    code: 1,
    stdout: '',
    stderr: /^error: .*another program/
  })
  t.match(await svc(['serve', '--port', '0'], { cwd, env: { SVC_HOME: server.home } }), {
    code: 1,
    stdout: '',
    stderr: /^error: /
  })
})

t.test("a token that is reset is the running server's from the next request on", async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const { stdout } = await svc(['admin', 'reset-password', '--random'], { cwd, env: { SVC_HOME: server.home } })
  const status = async (token: string) =>
    (await fetch(`${server.url}/api/projects`, { headers: { authorization: `Bearer ${token}` } })).status
  t.equal(await status(stdout.trim()), 200)
  t.equal(await status(server.adminToken), 401)
})

t.test('one signal lets running deployments finish, a second stops them', async t => {
  for (const signals of [1, 2]) {
    const cwd = t.testdir({})
    const server = await startServeProcess(t, cwd)
    const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
    const script = signals === 1 ? 'until [ -e go ]; do sleep 0.05; done' : 'sleep 60'
    const { finished } = await server.upload(project, { 'a.txt': 'one' }, { postDeploy: `echo begun; ${script}` })
    const stopped = server.stop('SIGINT')
    await server.warns(/Stopping/)
    if (signals === 2) void server.stop('SIGINT')
    else {
      mkdirSync(join(cwd, 'www'), { recursive: true })
      writeFileSync(join(cwd, 'www/go'), '')
    }
    t.equal(await stopped, 0)
    t.match((await finished.catch(() => [])).at(-1) ?? { status: 'failed' }, {
      status: signals === 1 ? 'success' : 'failed'
    })
  }
})

t.test('serve --runtime bun runs svc with the bun of PATH, or says how to get one', async t => {
  const cwd = t.testdir({})
  const missing = await svc(['serve', '--runtime', 'bun'], { cwd, env: { PATH: cwd } })
  t.match(missing, { code: 1, stderr: /Bun could not be started: it is not on PATH/ })

  mkdirSync(join(cwd, 'bin'))
  writeFileSync(join(cwd, 'bin/bun'), '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
  chmodSync(join(cwd, 'bin/bun'), 0o755)
  const env = { PATH: `${join(cwd, 'bin')}:${process.env['PATH']}` }
  const found = await svc(['serve', '--runtime', 'bun', '--port', '8080', '--no-terminal'], { cwd, env })
  t.equal(found.code, 7)
  t.match(found.stdout, /bin\/svc\.js\nserve\n--host\n127\.0\.0\.1\n--port\n8080\n--base=\n--no-terminal\n$/)
})
