import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { renderUnit, type UnitOptions } from '../../../lib/cli/service/unit.js'
import { blocksOf, type Block } from '../../documents/document.js'

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
