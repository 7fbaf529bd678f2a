import t from 'tap'
import type { Test } from 'tap'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { adminToken, startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { urlOf } from '../support/on-loopback.js'

/* What `curl -fsSL https://…/install.sh | sh` does, with the archives of `make build`. */

const top = fileURLToPath(new URL('../../../', import.meta.url))
const archive = readFileSync(join(top, 'dist/client.tgz'))
const sumOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

interface Said {
  code: number | null
  stdout: string
  stderr: string
}

interface Machine {
  home: string
  /** Runs a program with an environment of nothing but HOME and PATH. */
  run(words: readonly string[], options?: { input?: string; env?: Record<string, string> }): Promise<Said>
  install(script: string, ...words: string[]): Promise<Said>
  files(): string[]
}

/** A machine that has a shell, Node, and these programs. */
function machine(t: Test, programs: Record<string, string> = {}): Machine {
  const home = t.testdir({ bin: {}, work: {} })
  for (const [name, path] of Object.entries({ node: process.execPath, sh: '/bin/sh', ...programs }))
    symlinkSync(path, join(home, 'bin', name))
  const run: Machine['run'] = async ([program = '', ...words], { input = '', env = {} } = {}) => {
    const path = { PATH: join(home, 'bin'), HOME: home }
    const child = spawn(program, words, { cwd: join(home, 'work'), env: { ...path, ...env } })
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => (said[name] += text))
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, ...said }
  }
  return {
    home,
    run,
    install: (script, ...words) => run(['/bin/sh', '-s', '--', ...words], { input: script }),
    files: () => readdirSync(home).filter(name => name !== 'bin' && name !== 'work')
  }
}

const base = '/tools/svc'
const stage = await startServer(t, { base })
const anybody = stage.as(null)
const script = (await anybody.get('/install.sh')).text

t.test('anybody gets the script and the archives, whole, in part, or as they are known', async t => {
  for (const path of ['/install.sh', '/client.tgz', '/agent.tgz']) {
    const got = await anybody.get(path)
    t.equal(got.status, 200, path)
    t.match(got.headers, { 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff', etag: /^".+"$/ })
    const known = await anybody.get(path, { 'if-none-match': got.headers.etag as string })
    t.equal(known.status, 304)
    t.equal(known.text, '')
    const head = await anybody.send('HEAD', path)
    t.match(head, { status: 200, text: '', headers: { 'content-length': got.headers['content-length'] } })
    t.match(await anybody.send('POST', path), { status: 405, headers: { allow: 'GET, HEAD' } })
  }
  const bytes = Buffer.from(await (await fetch(`${stage.url}/client.tgz`)).arrayBuffer())
  t.ok(bytes.equals(archive))
  t.match(await anybody.get('/client.tgz', { range: 'bytes=0-9' }), {
    status: 206,
    headers: { 'content-range': `bytes 0-9/${archive.length}`, 'content-type': 'application/gzip' }
  })
  t.equal((await fetch(`${new URL(stage.url).origin}/install.sh`)).status, 404, 'not beside the prefix')
  t.same((await stage.client.get('/api/settings/status')).body.archives, {
    client: sumOf(archive),
    agent: sumOf(readFileSync(join(top, 'dist/agent.tgz')))
  })
})

t.test('a machine with Node and a shell gets a client that works', async t => {
  const there = machine(t)
  const svc = join(there.home, '.local/bin/svc')
  const first = await there.install(script)
  t.match(first, { code: 0, stderr: '' })
  t.match(first.stdout, `(client) is installed: ${svc}\n`)
  t.match(first.stdout, 'export PATH=')
  t.match(first.stdout, `Next: svc login --server ${stage.url}\n`)
  t.same(there.files(), ['.local'])
  t.match((await there.run([svc, '--version'])).stdout, /^\d+\.\d+\.\d+\n$/)
  const login = [svc, 'login', '--server', stage.url, '--token', '-']
  t.match(await there.run(login, { input: adminToken }), { code: 0, stdout: /^Logged in to / })
  t.match(await there.run([svc, 'whoami']), { code: 0, stdout: `${stage.url}: admin token` })

  const again = await there.install(script)
  t.equal(again.code, 0, again.stderr)
  t.same(readdirSync(join(there.home, '.local/share')), ['svc'], 'nothing of the earlier one is left')
  t.equal((await there.run([svc, 'whoami'])).code, 0)
})

t.test('curl downloads it where there is one, and it goes where it was told', async t => {
  const there = machine(t, { curl: '/usr/bin/curl' })
  writeFileSync(join(there.home, 'work/.curlrc'), '')
  const directory = join(there.home, "o'svc dir")
  const said = await there.run(['/bin/sh'], { input: script, env: { SVC_INSTALL_DIR: directory } })
  t.match(said, { code: 0, stderr: '' })
  t.ok(existsSync(join(directory, 'bin/svc.js')))
  t.match((await there.run([join(there.home, '.local/bin/svc'), '--version'])).stdout, /^\d/)
})

t.test('a node gets what it needs for svc agent, keeps it, and joins', async t => {
  const there = machine(t)
  const svc = join(there.home, '.local/bin/svc')
  t.match(await there.install(script, 'agent'), { code: 0, stdout: /\(agent\) is installed/ })
  t.match(await there.install(script), { code: 0, stdout: /\(agent\) is installed/ })
  const { body } = await stage.client.post('/api/enrollments', { name: 'plant-a1' })
  const env = { PATH: join(there.home, 'bin'), HOME: there.home, SVC_ENROLL_TOKEN: body.token }
  const agent = spawn(svc, ['agent', '--hub', stage.url], { cwd: there.home, env, stdio: 'ignore' })
  t.teardown(() => agent.kill('SIGKILL'))
  await until(async () => (await stage.client.get('/api/nodes')).body.nodes[0]?.isConnected === true)
  agent.kill('SIGTERM')
  t.same(await once(agent, 'exit'), [0, null])
})

t.test('another archive is refused, and what was installed stays', async t => {
  const other = createServer((request, response) => {
    const changed = Buffer.from(archive)
    changed[changed.length - 1] = (changed.at(-1) as number) ^ 1
    if (request.url === `${base}/client.tgz`) response.end(changed)
    else response.writeHead(404).end()
  })
  const elsewhere = await urlOf(t, other)
  const there = machine(t)
  const changed = script.replaceAll(new URL(stage.url).origin, elsewhere)
  const refused = await there.install(changed)
  t.match(refused, {
    code: 1,
    stdout: '',
    stderr: /is not the expected archive: its SHA-256 is [0-9a-f]{64} instead of /
  })
  t.same(there.files(), [])
  t.match(await there.install(changed, 'agent'), { code: 1, stderr: /cannot download .*: status 404/ })

  await there.install(script)
  t.equal((await there.install(changed)).code, 1)
  t.match((await there.run([join(there.home, '.local/bin/svc'), '--version'])).stdout, /^\d/)
})

t.test('a script that was cut does nothing', async t => {
  const there = machine(t)
  const last = script.lastIndexOf('main "$@"')
  for (const at of [60, 500, script.indexOf('const values') + 20, last - 3, last, last + 2]) {
    await there.install(script.slice(0, at))
    t.same(there.files(), [], `cut at ${at}`)
  }
})

t.test('it replaces nothing that is not its own', async t => {
  const there = machine(t)
  const [share, bin] = [join(there.home, '.local/share/svc'), join(there.home, '.local/bin')]
  mkdirSync(share, { recursive: true })
  writeFileSync(join(share, 'notes.txt'), 'mine')
  t.match(await there.install(script), { code: 1, stderr: /contains something else\. Set SVC_INSTALL_DIR/ })
  rmSync(share, { recursive: true })
  mkdirSync(bin)
  symlinkSync(join(top, 'bin/svc.js'), join(bin, 'svc'))
  t.match(await there.install(script), { code: 1, stderr: /bin\/svc" is another program\. Remove it first/ })
  t.ok(lstatSync(join(bin, 'svc')).isSymbolicLink())
  t.notOk(existsSync(share))
  t.match(await there.install(script, 'everything'), { code: 1, stderr: /unknown argument "everything"/ })
})

t.test('it says what Node it needs', async t => {
  const none = machine(t)
  rmSync(join(none.home, 'bin/node'))
  t.match(await none.install(script), { code: 1, stderr: /needs Node\.js 18 or newer, and there is no "node" in PATH/ })
  const { engines } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { engines: { node: string } }
  t.match(script, `"leastNode":${engines.node.replace('>=', '')}}`)
})

t.test('the address is the public one, or the one that was asked, and never a command', async t => {
  const { port } = new URL(stage.url)
  const asked = await anybody.get('/install.sh', { host: `deploy.example.org:${port}` })
  t.match(asked.text, `curl -fsSL http://deploy.example.org:${port}${base}/install.sh | sh`)
  t.notMatch((await anybody.get('/install.sh', { host: `x';touch y;'` })).text, 'touch y')
  const open = await startServer(t, { environment: { SVC_PUBLIC_URL: 'https://deploy.example.org' } })
  t.match((await open.as(null).get('/install.sh')).text, '"address":"https://deploy.example.org"')
})
