import t from 'tap'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderUnit, type UnitOptions } from '../../../lib/cli/commands/systemd.js'
import { type Block, blocksOf } from '../../documents/document.js'
import { createClient, eventsOf, formOf } from '../../support/client.js'
import { startSpeaker } from '../../support/lines.js'
import { serverSays } from '../../support/sentences/server.js'
import { svc, svcPath } from '../../support/svc.js'
import { zipOf } from '../../support/zip.js'

const valueOf = (unit: string, key: string): string | undefined => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1]

t.test('prints only the unit on standard output, and the installation steps on standard error', async t => {
  const cwd = t.testdir({})
  const { code, stdout, stderr } = await svc(
    ['systemd', '--path', '/srv/nowhere/www', '--user', 'deploy', '--base', '/tools', '--no-terminal', '--port=80'],
    { cwd }
  )
  t.equal(code, 0)
  t.match(stdout, /^# Written by "svc systemd"\./)
  t.equal(valueOf(stdout, 'ExecStart'), `${process.execPath} ${svcPath} serve --port=80 --base=/tools --no-terminal`)
  t.equal(valueOf(stdout, 'ReadWritePaths'), '/srv/nowhere/www')
  t.equal(valueOf(stdout, 'AmbientCapabilities'), 'CAP_NET_BIND_SERVICE')
  t.match(
    stderr,
    /^To install it, as root:\n {2}useradd --system --home-dir "\/var\/lib\/svc" .* deploy\n {2}install -d -o deploy -g deploy "\/srv\/nowhere\/www"\n {2}svc systemd .*\n {2}systemctl enable --now svc\n/
  )
})

t.test('a unit for several users runs as root and explains runAs', async t => {
  const cwd = t.testdir({})
  const { code, stdout, stderr } = await svc(['systemd', '--multi-user', '--path', '/srv/nowhere/www'], { cwd })
  t.equal(code, 0)
  t.equal(valueOf(stdout, 'User'), 'root')
  t.match(
    stderr,
    /\n {2}export SVC_HOME="\/var\/lib\/svc" && svc login\n {2}svc projects create <project> --path "\/srv\/nowhere\/www\/<project>" --user <user>\n {2}install -d -o <user> -g <user> "\/srv\/nowhere\/www\/<project>"\n/
  )
  t.match(await svc(['systemd', '--multi-user', '--user', 'deploy'], { cwd }), {
    code: 2,
    stdout: '',
    stderr: /--user cannot be used with --multi-user/
  })
})

t.test('resolves relative paths against the current directory', async t => {
  const cwd = t.testdir({})
  const { stdout } = await svc(['systemd', '--path', 'www', '--home', './data'], { cwd })
  t.equal(valueOf(stdout, 'ReadWritePaths'), join(cwd, 'data'))
  t.match(stdout, `ReadWritePaths=${join(cwd, 'www')}\n`)
  t.equal(valueOf(stdout, 'Environment'), `SVC_HOME=${join(cwd, 'data')}`)
})

t.test('a socket gets its own directory, and certificates keep their paths', async t => {
  const cwd = t.testdir({})
  const socket = (await svc(['systemd', '--socket', '/run/svc/http.sock'], { cwd })).stdout
  t.equal(valueOf(socket, 'RuntimeDirectory'), 'svc')
  t.equal(valueOf(socket, 'ExecStart'), `${process.execPath} ${svcPath} serve --socket=/run/svc/http.sock`)
  const tls = (await svc(['systemd', '--port', '443', '--tls-cert', 'cert.pem', '--tls-key', '/etc/key.pem'], { cwd }))
    .stdout
  t.match(tls, `serve --port=443 --tls-cert=${join(cwd, 'cert.pem')} --tls-key=/etc/key.pem\n`)
})

t.test('warns about files in /tmp, because the service has a private /tmp', async t => {
  const { stderr } = await svc(['systemd', '--path', '/tmp/www'], { cwd: t.testdir({}) })
  t.match(stderr, 'warning: /tmp/www is invisible to the service')
})

t.test('the public URL is in the unit and is checked like by the server', async t => {
  const cwd = t.testdir({})
  const run = (...words: string[]) => svc(['systemd', '--path', '/srv', ...words], { cwd })
  const set = await run('--host', '0.0.0.0', '--base', 'tools', '--public-url', ' https://Deploy.example.org/tools/ ')
  t.match(set.stdout, /^Environment=SVC_PUBLIC_URL=https:\/\/deploy\.example\.org\/tools$/m)
  t.notMatch(set.stdout, /^#Environment=SVC_PUBLIC_URL|^ExecStart=.*public-url/m)
  t.notMatch(set.stderr, /--public-url/)
  for (const [url, sentence] of [
    ['deploy.example.org', /^error: --public-url "deploy\.example\.org" is not valid: use an address like/m],
    ['https://deploy.example.org/tools', /it must have no path, because the server has no --base/],
    ['https://me:secret@deploy.example.org', /must not contain a user name or password/],
    ['https://deploy.example.org?\nUser=root', /must not contain "\?" or "#"/],
    ['', /--public-url is empty/]
  ] as const) {
    const refused = await run('--public-url', url)
    t.match(refused, { code: 2, stdout: '', stderr: sentence }, url)
    t.notMatch(refused.stderr, 'secret')
  }
  t.notMatch((await run('--public-url', 'https://a.example\nUser=root')).stdout, /^User=root/m)
})

t.test('recommends a public URL if other machines can reach the server', async t => {
  const cwd = t.testdir({})
  for (const [words, isRecommended] of [
    [[], false],
    [['--host', '127.0.0.2'], false],
    [['--host', '::1'], false],
    [['--host', 'localhost'], false],
    [['--host', '0.0.0.0'], true],
    [['--socket', '/run/svc/http.sock'], true],
    [['--base', '/tools'], true]
  ] as const) {
    const { stdout, stderr } = await svc(['systemd', ...words], { cwd })
    t.match(stdout, /^#Environment=SVC_PUBLIC_URL=/m)
    t.equal(stderr.includes('--public-url'), isRecommended, words.join(' '))
  }
})

t.test('a name cannot add a line to the unit', async t => {
  const cwd = t.testdir({})
  for (const words of [
    ['--user', 'a\nUser=root'],
    ['--user', ''],
    ['--home', '/a\nUser=root'],
    ['--path', '/a\r'],
    ['--path', '']
  ]) {
    const { code, stdout } = await svc(['systemd', ...words], { cwd })
    t.match({ code, stdout }, { code: 2, stdout: '' }, JSON.stringify(words))
  }
})

/**
 * Imitates the effect of the unit without systemd: file systems that are read-only
 * but for the unit's directories, a /tmp of its own, no capabilities and no new privileges.
 */
const sandbox = `
set -e
mount --make-rprivate /
disk=$(findmnt -n -o TARGET -T "$1")
for path in $WRITABLE; do mount --bind "$path" "$path"; done
# The whole system, as ProtectSystem=strict: also the disk of the tests.
for place in / "$disk"; do mount -o remount,bind,ro "$place"; done
mount -t tmpfs tmpfs /var/tmp
cd "$1"; shift
exec setpriv --no-new-privs --bounding-set=-all$CAPABILITIES --inh-caps=-all "$@"
`
const may =
  spawnSync('unshare', [
    '--mount',
    'sh',
    '-c',
    'mount --make-rprivate / && mount -o remount,bind,ro / && setpriv --no-new-privs true'
  ]).status === 0
const skip = !may && 'only root, with "unshare" and "setpriv", can make such a place'

t.test(
  'under what the unit restricts, a site is deployed where it may be, and refused elsewhere',
  { skip },
  async t => {
    const directory = mkdtempSync(join(tmpdir(), 'svc-systemd-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    for (const name of ['data', 'www', 'other', 'existing/site']) mkdirSync(join(directory, name), { recursive: true })
    const asked = [
      'systemd',
      '--home',
      join(directory, 'data'),
      '--path',
      join(directory, 'www'),
      '--port',
      '0',
      '--log-format',
      'json'
    ]
    const { stdout: unit } = await svc(asked, { cwd: directory })
    const writable = [...unit.matchAll(/^ReadWritePaths=(.*)$/gm)].map(([, path]) => path as string)
    t.same(writable, [join(directory, 'data'), join(directory, 'www')])
    const words = (valueOf(unit, 'ExecStart') as string).split(' ')
    const env = {
      PATH: process.env['PATH'],
      WRITABLE: writable.join(' '),
      CAPABILITIES: '',
      SVC_HOME: (valueOf(unit, 'Environment') as string).slice('SVC_HOME='.length)
    }
    const server = startSpeaker(
      t,
      'unshare',
      ['--mount', 'sh', '-c', sandbox, 'sh', valueOf(unit, 'WorkingDirectory') as string, ...words],
      { env }
    )
    const url = /http:\/\/[\d.:]+/.exec(await server.says(/svc listens on/))?.[0] as string
    await server.says(new RegExp(serverSays.tokenComesFrom('')))
    const { adminToken } = JSON.parse(readFileSync(join(directory, 'data/config.json'), 'utf8')) as {
      adminToken: string
    }
    const admin = createClient(() => url, adminToken)

    const push = async (name: string) => {
      const { status, body } = await admin.post('/api/projects', { name, deployPath: join(directory, name, 'site') })
      t.equal(status, 200)
      const { contentType, body: form } = formOf([
        ['projectId', body.project.id],
        ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': name }) }],
        ['postDeploy', `touch made-by-script; touch "${directory}/other/by-script"`]
      ])
      const reply = await createClient(() => url, body.project.token).open('POST', '/api/deploy/upload', {
        headers: { 'content-type': contentType },
        body: form
      })
      let text = ''
      for await (const chunk of reply) text += String(chunk)
      return { events: eventsOf({ text }), text }
    }
    const allowed = await push('www')
    t.equal(readFileSync(join(directory, 'www/site/index.html'), 'utf8'), 'www')
    t.ok(existsSync(join(directory, 'www/site/made-by-script')), 'scripts may write there as well')
    t.match(allowed.text, /Read-only file system/, 'and nowhere else')
    for (const [name, why] of [
      ['other', /read-only file system at \\".*other\\"\. Under systemd, add the directory to ReadWritePaths/],
      ['existing', /The target was left as it was: read-only file system/]
    ] as const) {
      const refused = await push(name)
      t.match(refused.events.at(-1), { event: 'status', status: 'failed' })
      t.match(refused.text, why)
    }
    t.equal((await admin.get('/api/system/resources')).status, 200, 'what the panel shows of the machine can be read')
    server.child.kill('SIGTERM')
    t.equal(await server.ended, 0)
  }
)

t.test('with the unit for several users, a project is deployed with the rights of its user', { skip }, async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-systemd-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  chmodSync(directory, 0o755)
  for (const name of ['data', 'www/site']) mkdirSync(join(directory, name), { recursive: true })
  const site = join(directory, 'www/site')
  chmodSync(site, 0o700)
  const [uid, gid] = ['-u', '-g'].map(flag =>
    Number(spawnSync('id', [flag, 'daemon'], { encoding: 'utf8' }).stdout)
  ) as [number, number]
  chownSync(site, uid, gid)
  const asked = [
    'systemd',
    '--multi-user',
    '--home',
    join(directory, 'data'),
    '--path',
    join(directory, 'www'),
    '--port',
    '0',
    '--log-format',
    'json'
  ]
  const { stdout: unit } = await svc(asked, { cwd: directory })
  const writable = [...unit.matchAll(/^ReadWritePaths=(.*)$/gm)].map(([, path]) => path as string)
  const capabilities = (valueOf(unit, 'CapabilityBoundingSet') as string)
    .split(' ')
    .map(name => `,+${name.slice('CAP_'.length).toLowerCase()}`)
    .join('')
  const words = (valueOf(unit, 'ExecStart') as string).split(' ')
  const env = {
    PATH: process.env['PATH'],
    WRITABLE: writable.join(' '),
    CAPABILITIES: capabilities,
    TMPDIR: '/var/tmp',
    SVC_HOME: join(directory, 'data')
  }
  const server = startSpeaker(t, 'unshare', ['--mount', 'sh', '-c', sandbox, 'sh', join(directory, 'data'), ...words], {
    env
  })
  const url = /http:\/\/[\d.:]+/.exec(await server.says(/svc listens on/))?.[0] as string
  await server.says(new RegExp(serverSays.tokenComesFrom('')))
  const { adminToken } = JSON.parse(readFileSync(join(directory, 'data/config.json'), 'utf8')) as { adminToken: string }
  const admin = createClient(() => url, adminToken)
  const { status, body } = await admin.post('/api/projects', {
    name: 'site',
    deployPath: site,
    runAs: 'daemon',
    umask: '077'
  })
  t.equal(status, 200)
  const { contentType, body: form } = formOf([
    ['projectId', body.project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'of the user' }) }],
    ['postDeploy', 'id -un; touch by-script; cat "$SVC_CHANGES"; sleep 600 >/dev/null 2>&1 &']
  ])
  const reply = await createClient(() => url, body.project.token).open('POST', '/api/deploy/upload', {
    headers: { 'content-type': contentType },
    body: form
  })
  let text = ''
  for await (const chunk of reply) text += String(chunk)
  t.match(eventsOf({ text }).at(-1), { event: 'status', status: 'success' }, text)
  t.match(text, /"daemon"[^]*"index.html"/)
  for (const name of ['index.html', 'by-script']) t.match(statSync(join(site, name)), { uid, gid }, name)
  t.match(
    (await admin.get(`/api/projects/${body.project.id}/file?path=index.html`)).body,
    { content: 'of the user' },
    'svc shows what only the user may read'
  )
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
})

const usual: UnitOptions = {
  user: 'svc',
  isMultiUser: false,
  home: '/var/lib/svc',
  command: ['/bin/sh', '/opt/svc/bin/svc.js', 'serve'],
  paths: ['/srv/www'],
  reads: [],
  port: 5431,
  socket: undefined,
  publicUrl: null
}

/** The settings of the unit, without comments; one that is given several times is a list. */
function settingsOf(unit: string): Record<string, string[]> {
  const settings: Record<string, string[]> = {}
  for (const [, key = '', value = ''] of unit.matchAll(/^(\w+)=(.*)$/gm)) (settings[key] ??= []).push(value)
  return settings
}

t.test('renders the default unit', async t => {
  t.match(settingsOf(renderUnit(usual)), {
    Type: ['notify'],
    NotifyAccess: ['all'],
    User: ['svc'],
    KillMode: ['mixed'],
    ExecReload: ['/bin/kill -HUP $MAINPID'],
    ExecStart: ['/bin/sh /opt/svc/bin/svc.js serve'],
    Environment: ['SVC_HOME=/var/lib/svc'],
    StateDirectory: ['svc'],
    ReadWritePaths: ['/srv/www'],
    ProtectSystem: ['strict'],
    ProtectHome: ['yes'],
    NoNewPrivileges: ['yes'],
    PrivateTmp: ['yes'],
    CapabilityBoundingSet: [''],
    SystemCallArchitectures: ['native'],
    Restart: ['on-failure'],
    RestrictAddressFamilies: ['AF_INET AF_INET6 AF_UNIX AF_NETLINK']
  })
  const { MemoryDenyWriteExecute, AmbientCapabilities, TimeoutStopSec } = settingsOf(renderUnit(usual))
  t.equal(MemoryDenyWriteExecute, undefined, 'Node compiles')
  t.equal(AmbientCapabilities, undefined)
  t.ok(Number(TimeoutStopSec) > 1800, 'longer than a script may take')
})

const cases: Array<[what: string, change: Partial<UnitOptions>, expected: Record<string, string[] | undefined>]> = [
  [
    'a port for root',
    { port: 443 },
    { AmbientCapabilities: ['CAP_NET_BIND_SERVICE'], CapabilityBoundingSet: ['CAP_NET_BIND_SERVICE'] }
  ],
  ['any free port', { port: 0 }, { AmbientCapabilities: undefined, CapabilityBoundingSet: [''] }],
  [
    'a data directory elsewhere',
    { home: '/srv/svc' },
    { StateDirectory: undefined, ReadWritePaths: ['/srv/svc', '/srv/www'] }
  ],
  ['a deeper one', { home: '/var/lib/a/b' }, { StateDirectory: ['a/b'] }],
  ['no deployPath known', { paths: [] }, { ReadWritePaths: undefined }],
  ['a deployPath below /home', { paths: ['/srv/www', '/home/ann/www'] }, { ProtectHome: ['read-only'] }],
  ['Node below /root', { command: ['/root/.nvm/node'] }, { ProtectHome: ['read-only'] }],
  ['a certificate below /home', { reads: ['/home/ann/cert.pem'] }, { ProtectHome: ['read-only'] }],
  [
    'projects of several users',
    { user: 'root', isMultiUser: true },
    {
      User: ['root'],
      Group: undefined,
      NoNewPrivileges: ['yes'],
      CapabilityBoundingSet: ['CAP_SETUID CAP_SETGID CAP_KILL CAP_SYS_PTRACE CAP_DAC_READ_SEARCH']
    }
  ],
  [
    'projects of several users, and a port for root',
    { user: 'root', isMultiUser: true, port: 80 },
    {
      AmbientCapabilities: undefined,
      CapabilityBoundingSet: ['CAP_SETUID CAP_SETGID CAP_KILL CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_NET_BIND_SERVICE']
    }
  ],
  ['what only begins like that', { paths: ['/homestead'] }, { ProtectHome: ['yes'] }],
  [
    'an address in browsers',
    { publicUrl: 'https://deploy.example.org/tools' },
    {
      Environment: ['SVC_HOME=/var/lib/svc', 'SVC_PUBLIC_URL=https://deploy.example.org/tools']
    }
  ],
  [
    'a socket below /run',
    { socket: '/run/svc/http.sock' },
    { RuntimeDirectory: ['svc'], ReadWritePaths: ['/srv/www'] }
  ],
  [
    'a socket elsewhere',
    { socket: '/srv/sockets/http.sock' },
    { RuntimeDirectory: undefined, ReadWritePaths: ['/srv/sockets', '/srv/www'] }
  ]
]
for (const [what, change, expected] of cases) {
  t.test(what, async t => {
    const settings = settingsOf(renderUnit({ ...usual, ...change }))
    for (const [key, value] of Object.entries(expected)) t.same(settings[key], value, key)
  })
}

const noSystemd = spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not on this machine'

/** Has systemd read a unit. */
function verify(directory: string, unit: string): { status: number | null; said: string } {
  const file = join(directory, 'svc.service')
  writeFileSync(file, unit)
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], { encoding: 'utf8' })
  return { status, said: stdout + stderr }
}

t.test('systemd accepts all units, including those with unusual names', { skip: noSystemd }, async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-unit-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  // Read wrongly, this would be no program that is there, or no absolute path.
  const odd = join(directory, 'a "b" 100%h $HOME \\c\' é')
  // systemd itself takes no quotes and no backslashes in the path of a program.
  const program = join(directory, 'a 100%h $HOME é')
  copyFileSync('/bin/true', program)
  chmodSync(program, 0o755)
  for (const [what, change] of cases)
    t.same(verify(directory, renderUnit({ ...usual, ...change, command: ['/bin/sh'] })), { status: 0, said: '' }, what)
  const strange = renderUnit({
    ...usual,
    home: odd,
    paths: [odd, '/srv/w w'],
    command: [program, odd],
    socket: join(odd, 'a.sock')
  })
  t.same(verify(directory, strange), { status: 0, said: '' }, 'odd names')
  t.not(verify(directory, strange.replaceAll('%%', '%')).said, '', 'it would have said so')
})

t.test('systemd accepts the unit of an agent in docs/fleet.md', { skip: noSystemd }, async t => {
  const [unit, ...others] = blocksOf('docs/fleet.md').filter(({ mark }) => mark === 'ini')
  t.strictSame(others, [])
  const directory = mkdtempSync(join(tmpdir(), 'svc-unit-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const text = (unit as Block).text
  // It runs as a user who cannot create directories in /var/lib.
  const [state] = settingsOf(text)['StateDirectory'] ?? []
  t.same(settingsOf(text)['Environment'], [`SVC_HOME=/var/lib/${state}`])
  t.same(verify(directory, text), { status: 0, said: '' })
  t.not(verify(directory, text.replace('KillMode=mixed', 'KillMode=mix')).said, '', 'it would have said so')
})

t.test('systemd-analyze rates the exposure of the service as low', { skip: noSystemd }, async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-unit-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, 'svc.service')
  writeFileSync(file, renderUnit({ ...usual, command: ['/bin/sh'] }))
  const { stdout } = spawnSync('systemd-analyze', ['security', '--offline=true', file], { encoding: 'utf8' })
  const level = /Overall exposure level for svc\.service: ([\d.]+)/.exec(stdout)?.[1]
  t.ok(Number(level) < 4, `${level} of 10`)
})
