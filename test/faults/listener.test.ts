import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { bare } from '../support/bare.js'
import { startServeProcess } from '../support/serve-process.js'
import { bareEnvironment, svcPath } from '../support/svc.js'
import { snapshot } from '../support/tree.js'
import { defaultWithinMs } from '../support/until.js'
import { listen } from '../support/on-loopback.js'

/*
 * What keeps a server from listening: each a sentence with the cause and the next step, exit code 1, and a data
 * directory as it was before, or none where there was none.
 */

/** A network namespace, with the shell commands that prepare it. */
const network = (setup: string): string[] => ['unshare', '--net', 'sh', '-c', `${setup} && exec "$@"`, 'sh']
const ipv6Only = network('ip link set lo up && ip address del 127.0.0.1/8 dev lo')
const may = spawnSync('unshare', ['--net', 'ip', 'link', 'set', 'lo', 'up']).status === 0
const skip = !may && 'only root, with "unshare" and "ip", can give a program a network of its own'

interface Ended {
  status: number | null
  stdout: string
  stderr: string
}

function run(prefix: string[], words: string[], { cwd, home }: { cwd: string; home: string }): Ended {
  const [program, all] = bare(
    prefix[0] ?? process.execPath,
    prefix.length === 0 ? [svcPath, ...words] : [...prefix.slice(1), process.execPath, svcPath, ...words]
  )
  return spawnSync(program, all, {
    cwd,
    env: bareEnvironment(cwd, { SVC_HOME: home }),
    encoding: 'utf8',
    timeout: defaultWithinMs
  })
}

async function occupied(t: { teardown(work: () => unknown): void }): Promise<string> {
  const server = createServer()
  return String(await listen(t, server))
}

const cases: Array<{ what: string; prefix?: string[]; words: string[]; says: RegExp; skip?: string | false }> = [
  {
    what: 'a port that another program has',
    words: ['--port', 'OCCUPIED'],
    says: /^error: Cannot listen on 127\.0\.0\.1:\d+: address already in use\. Stop the other program \("ss -ltnp" as root shows it\), or choose another --port\n$/
  },
  {
    what: 'an address of another machine',
    prefix: network('ip link set lo up'),
    words: ['--host', '192.0.2.1'],
    skip,
    says: /^error: Cannot listen on 192\.0\.2\.1:5431: address not available\. This machine has 127\.0\.0\.1, ::1\. Choose one of them with --host, or "::" for all of them\n$/
  },
  {
    what: 'an IPv6 address of another machine',
    prefix: network('ip link set lo up'),
    words: ['--host', '2001:db8::1'],
    skip,
    says: /^error: Cannot listen on \[2001:db8::1\]:5431: address not available\. This machine has 127\.0\.0\.1, ::1\. Choose one of them with --host\n$/
  },
  {
    what: 'a machine that has IPv6 only, and no other address asked for',
    prefix: ipv6Only,
    words: [],
    skip,
    says: /^error: Cannot listen on 127\.0\.0\.1:5431: address not available\. This machine has ::1\. Choose one of them with --host, or "::" for all of them\n$/
  },
  {
    what: 'a machine whose interfaces are down',
    prefix: network('true'),
    words: ['--host', '::1'],
    skip,
    says: /^error: Cannot listen on \[::1\]:5431: address not available\. This machine has no address: .*"ip link set lo up"/
  },
  {
    what: 'an unknown name',
    prefix: network('ip link set lo up'),
    words: ['--host', 'nowhere.invalid'],
    skip,
    says: /^error: Cannot listen on nowhere\.invalid:5431: [a-z ]+\. This machine has 127\.0\.0\.1, ::1\. Choose one/
  },
  {
    what: 'a port that only root may have',
    prefix: [
      'setpriv',
      '--bounding-set=-net_bind_service',
      '--inh-caps=-net_bind_service',
      ...network('ip link set lo up && sysctl -qw net.ipv4.ip_unprivileged_port_start=1024')
    ],
    words: ['--port', '80'],
    skip,
    says: /^error: Cannot listen on 127\.0\.0\.1:80: permission denied\. Only root may listen on port 80\. Choose a port above 1023 with --port .*CAP_NET_BIND_SERVICE/
  },
  {
    what: 'a link-local address without its interface',
    prefix: network('ip link set lo up'),
    words: ['--host', 'fe80::1'],
    skip,
    says: /^error: Cannot listen on \[fe80::1\]:5431: invalid argument\. This machine has .*fe80::1%eth0\n$/
  }
]

/** A data directory that has served. */
const served = (async () => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await server.stop()
  return server.home
})()

for (const { what, prefix = [], words, says, skip = false } of cases) {
  t.test(`${what}: a sentence, exit code 1, nothing changed`, { skip }, async t => {
    const cwd = t.testdir({})
    const port = words.includes('OCCUPIED') ? await occupied(t) : ''
    const asked = ['serve', ...words.map(word => (word === 'OCCUPIED' ? port : word))]
    const first = run(prefix, asked, { cwd, home: join(cwd, 'new') })
    t.match(first, { status: 1, stdout: '', stderr: says })
    t.notOk(existsSync(join(cwd, 'new')), 'a first start leaves no data directory')

    const home = join(cwd, 'server-home')
    cpSync(await served, home, { recursive: true, preserveTimestamps: true })
    const before = snapshot(home)
    t.match(run(prefix, asked, { cwd, home }), { status: 1, stdout: '', stderr: says })
    t.same(snapshot(home), before, 'one that has served before is as it was')
  })
}

t.test('a second server on a data directory names the process that has it', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const { status, stdout, stderr } = run([], ['serve', '--port', '0'], { cwd, home: server.home })
  t.match({ status, stdout }, { status: 1, stdout: '' })
  const who =
    process.platform === 'linux'
      ? `another svc process uses it (process id ${server.pid})`
      : 'another svc process uses it'
  t.equal(
    stderr,
    `error: Cannot open "${server.home}": ${who}. Stop that process, or choose another directory with SVC_HOME\n`
  )
  t.equal((await fetch(`${server.url}/api/health`)).status, 200, 'the first one does not mind')
})

t.test('on a machine that has IPv6 only, --host :: serves, and a client comes by [::1]', { skip }, async t => {
  const cwd = t.testdir({})
  const [program, words] = bare(ipv6Only[0] as string, [
    ...ipv6Only.slice(1),
    process.execPath,
    svcPath,
    'serve',
    '--host',
    '::',
    '--port',
    '5431'
  ])
  const child = spawn(program, words, { cwd, env: bareEnvironment(cwd, {}), stdio: ['ignore', 'pipe', 'ignore'] })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  for await (const text of child.stdout.setEncoding('utf8')) if ((said += text).includes('Data directory')) break
  t.match(said, 'svc listens on http://[::]:5431/\n')
  const token = /Admin token: (\S+)/.exec(said)?.[1] as string
  const inside = ['nsenter', '--net', '--target', String(child.pid)]
  const listed = run(inside, ['list', '--json', '--server', 'http://[::1]:5431', '--token', token], {
    cwd,
    home: join(cwd, 'client')
  })
  t.match(listed, { status: 0, stdout: '[]\n' })
})
