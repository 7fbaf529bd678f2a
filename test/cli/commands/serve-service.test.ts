import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeSigned } from '../../support/certificates.js'
import { startSpeaker } from '../../support/lines.js'
import { startServeProcess } from '../../support/serve-process.js'
import { bareEnvironment, svc, svcPath } from '../../support/svc.js'
import { serverSays } from '../../support/sentences/server.js'

/* `svc serve` as a service: its log as JSON, and the signals a service manager sends. */

const serveWords = [svcPath, 'serve', '--port', '0']
const listens = /svc listens on (http:\/\/[^\s"]+)\//

t.test('--log-format json prints an object for every line, and none contains the token', async t => {
  const cwd = t.testdir({ '.env.local': 'ADMIN_TOKEN=weak-token\n' })
  const server = startSpeaker(t, process.execPath, [...serveWords, '--host', '0.0.0.0', '--log-format', 'json'], {
    cwd,
    env: bareEnvironment(cwd, {})
  })
  await server.says(/reachable from other machines/)
  await server.says(/Data directory/)
  server.child.kill('SIGHUP')
  await server.says(/Reloaded/)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
  const records = server.lines.map(line => JSON.parse(line) as Record<string, string>)
  for (const { time, level, message } of records) {
    t.match({ time, level, message }, { time: /^\d{4}-\d\d-\d\dT[\d:.]+Z$/, level: /^(info|warn)$/, message: /./ })
  }
  const messages = records.map(({ level, message }) => `${level} ${message}`)
  t.ok(messages.some(line => /^info svc listens on http/.test(line)))
  t.ok(messages.some(line => /^warn The admin token is weak/.test(line)))
  t.ok(messages.some(line => /^info Stopping/.test(line)))
  t.ok(messages.includes(`info ${serverSays.tokenComesFrom(join(cwd, '.env.local'))}`))
  t.notMatch(server.lines.join('\n'), 'weak-token')
})

t.test('--log-format json prints a refused start as an object', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const { code, stdout, stderr } = await svc(['serve', '--port', '0', '--log-format=json'], {
    cwd,
    env: { SVC_HOME: server.home }
  })
  t.match({ code, stdout }, { code: 1, stdout: '' })
  t.match(JSON.parse(stderr), { level: 'error', message: /another svc process uses it/ })
})

t.test('--log-requests prints a line for each request, without its query', async t => {
  for (const format of ['text', 'json']) {
    const cwd = t.testdir({})
    const server = startSpeaker(t, process.execPath, [...serveWords, '--log-requests', '--log-format', format], {
      cwd,
      env: bareEnvironment(cwd, {})
    })
    const url = listens.exec(await server.says(listens))?.[1] as string
    await (await fetch(`${url}/api/projects?ticket=a-secret`)).text()
    const line = await server.says(/api\/projects/)
    t.notMatch(line, 'a-secret')
    if (format === 'text') t.match(line, /^127\.0\.0\.1 GET \/api\/projects 401 [\d.]+ ms$/)
    else
      t.match(JSON.parse(line), {
        level: 'info',
        method: 'GET',
        path: '/api/projects',
        status: 401,
        ms: Number,
        address: '127.0.0.1',
        aborted: false
      })
    server.child.kill('SIGTERM')
    t.equal(await server.ended, 0)
  }
})

t.test('the systemd journal contains no token', async t => {
  const cwd = t.testdir({})
  // The shell's stdout is the pipe that the server gets.
  const script = 'export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/1); exec "$@"'
  const server = startSpeaker(t, 'sh', ['-c', script, 'sh', process.execPath, ...serveWords], {
    cwd,
    env: bareEnvironment(cwd, {})
  })
  const config = join(cwd, '.svc/config.json')
  t.equal(await server.says(/admin token/i), serverSays.tokenComesFrom(config))
  await server.says(/Data directory/)
  const { adminToken } = JSON.parse(readFileSync(config, 'utf8')) as { adminToken: string }
  t.notMatch(server.lines.join('\n'), adminToken)
})

t.test('SIGHUP reloads ADMIN_TOKEN, also under nohup, and never ends the server', async t => {
  const cwd = t.testdir({ '.env.local': 'ADMIN_TOKEN=first-token-0123456789-abc\n' })
  const server = startSpeaker(t, 'nohup', [process.execPath, ...serveWords], { cwd, env: bareEnvironment(cwd, {}) })
  const url = listens.exec(await server.says(listens))?.[1] as string
  const status = async (token: string) =>
    (await fetch(`${url}/api/projects`, { headers: { authorization: `Bearer ${token}` } })).status
  t.equal(await status('first-token-0123456789-abc'), 200)

  server.child.kill('SIGHUP')
  await server.says(/^Reloaded: nothing has changed$/)
  writeFileSync(join(cwd, '.env.local'), 'ADMIN_TOKEN=second-token-0123456789-abc\n')
  server.child.kill('SIGHUP')
  await server.says(new RegExp(`^${serverSays.reloaded('new admin token')}$`))
  t.equal(await status('first-token-0123456789-abc'), 401)
  t.equal(await status('second-token-0123456789-abc'), 200)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
})

t.test('SIGHUP reloads the certificate and reports what is wrong with it', async t => {
  const [first, second] = [makeSigned().server, makeSigned().server]
  const cwd = t.testdir({ 'cert.pem': first.cert, 'key.pem': first.key })
  const server = startSpeaker(t, process.execPath, [...serveWords, '--tls-cert', 'cert.pem', '--tls-key', 'key.pem'], {
    cwd,
    env: bareEnvironment(cwd, {})
  })
  await server.says(/Data directory/)
  writeFileSync(join(cwd, 'cert.pem'), second.cert)
  writeFileSync(join(cwd, 'key.pem'), second.key)
  server.child.kill('SIGHUP')
  await server.says(new RegExp(`^${serverSays.newCertificate}`))
  await server.says(new RegExp(`^${serverSays.reloaded('new certificate')}$`))
  writeFileSync(join(cwd, 'cert.pem'), 'broken')
  server.child.kill('SIGHUP')
  await server.says(new RegExp(`^warning: ${serverSays.previousCertificate}.*${serverSays.noCertificate}`))
  await server.says(/^Reloaded: nothing has changed$/)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
})

t.test('SIGHUP during the start waits until the server is ready', async t => {
  const cwd = t.testdir({})
  const server = startSpeaker(t, process.execPath, serveWords, { cwd, env: bareEnvironment(cwd, {}) })
  await server.says(listens)
  for (let i = 0; i < 5; i++) server.child.kill('SIGHUP')
  await server.says(/^Reloaded: /)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
})

/**
 * Runs a program on a terminal of its own, which is closed once a line comes in; then SIGTERM at the end of the input.
 */
const onTerminal = `
import os, pty, signal, sys
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
said = b''
while b'Data directory' not in said:
    said += os.read(master, 4096)
print(said.decode(), flush=True)
sys.stdin.readline()
os.close(master)
print('closed', flush=True)
sys.stdin.read()
os.kill(pid, signal.SIGTERM)
print('exit code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
`

function noTerminal(): string | false {
  try {
    execFileSync('python3', ['-c', 'import pty'], { stdio: 'ignore' })
    return false
  } catch {
    return 'python3 with its pty module is not on this machine'
  }
}

t.test('closing its terminal does not end the server', { skip: noTerminal() }, async t => {
  const cwd = t.testdir({})
  const python = startSpeaker(t, 'python3', ['-c', onTerminal, process.execPath, ...serveWords], {
    cwd,
    env: bareEnvironment(cwd, {})
  })
  const url = listens.exec(await python.says(listens))?.[1] as string
  await python.says(/Data directory/)
  python.child.stdin.write('\n')
  await python.says(/^closed$/)
  for (let i = 0; i < 20; i++) t.equal((await fetch(`${url}/api/health`)).status, 200)
  python.child.stdin.end()
  // Node itself aborts at the very end of a process whose terminal is gone, when it sets that back (SIGABRT).
  await python.says(/^exit code (0|-6)$/)
  t.notOk(existsSync(join(cwd, '.svc/svc.sock')), 'all was closed by then')
})
