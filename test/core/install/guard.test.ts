import t from 'tap'
import { lstatSync, readFileSync, realpathSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { homedir } from 'node:os'
import { fileURLToPath } from 'node:url'
import {
  checkDeployPath,
  ensureTarget,
  groupUnder,
  modeUnder,
  refuseReserved,
  systemPathFault
} from '../../../lib/core/install/guard.js'
import { Refusal } from '../../../lib/base/errors.js'
import { refusalOf } from '../../support/extraction.js'

const home = '/var/lib/svc-test-home'

function check(path: string, data = home): string {
  try {
    return checkDeployPath(path, { home: data })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    t.equal(error.kind, 'invalid')
    t.equal(error.field, 'deployPath')
    return `refused: ${error.message}`
  }
}

t.test('accepts paths that can be targets, normalized', async t => {
  for (const [path, expected] of [
    ['/var/www/site', '/var/www/site'],
    ['/var/www/site/', '/var/www/site'],
    ['/var/www/../www//site', '/var/www/site'],
    ['/opt/app', '/opt/app'],
    ['/usr/local/app', '/usr/local/app'],
    ['/etc-site', '/etc-site'],
    ['/home/me', '/home/me'],
    ['/var/lib/svc-test-home2', '/var/lib/svc-test-home2'],
    ['/srv/x', '/srv/x'],
    ['/procession', '/procession']
  ] as const)
    t.equal(check(path), expected, path)
})

t.test('refuses paths that cannot be targets', async t => {
  for (const path of [
    '',
    'relative',
    './x',
    '/',
    '//',
    '/etc',
    '/etc/',
    '/usr',
    '/bin',
    '/var',
    '/home',
    '/root',
    '/tmp',
    '/proc',
    '/proc/1',
    '/sys/x',
    '/dev/shm/x',
    '/var/www/../../etc',
    '/usr/local/bin',
    '/x\0y',
    home,
    `${home}/x`,
    '/var/lib',
    `${home}/../svc-test-home`
  ])
    t.match(check(path), /^refused: deployPath is invalid/, JSON.stringify(path))
})

t.test('follows links in the existing part of a path', async t => {
  const directory = realpathSync(t.testdir({ home: {}, real: {} }))
  symlinkSync('/etc', join(directory, 'to-etc'))
  symlinkSync('home', join(directory, 'to-home'))
  symlinkSync('real', join(directory, 'to-real'))
  const data = join(directory, 'home')
  t.match(check(join(directory, 'to-etc'), data), /leads to "\/etc", which is a directory of the system/)
  t.match(check(join(directory, 'to-home/not/yet'), data), /own data directory/)
  t.match(check(directory, data), /contains svc's own data directory/)
  t.equal(
    check(join(directory, 'to-real/not/yet'), data),
    join(directory, 'to-real/not/yet'),
    'the requested path is kept'
  )
  t.equal(check(join(directory, 'home2'), data), join(directory, 'home2'), 'a sibling of the data directory')
})

t.test('creates the target when a deployment begins', async t => {
  const directory = t.testdir({ home: {}, file: 'x' })
  const needs = { home: join(directory, 'home') }
  t.equal(await ensureTarget(join(directory, 'a/b/'), needs), join(directory, 'a/b'))
  t.ok(lstatSync(join(directory, 'a/b')).isDirectory())
  t.equal((await refusalOf(ensureTarget(join(directory, 'file'), needs))).code, 'target_is_a_file')
  t.equal((await refusalOf(ensureTarget(join(directory, 'file/x'), needs))).kind, 'conflict')
})

/** The directory of this program. */
const top = fileURLToPath(new URL('../../../../', import.meta.url)).slice(0, -1)

const closed = [
  '/root/.ssh',
  '/home/me/.ssh',
  '/srv/app/.ssh/keys',
  '/home/me/.gnupg',
  '/root/.aws/x',
  '/root/.kube',
  '/root/.docker',
  '/etc/cron.d',
  '/etc/cron.d/sub',
  '/etc/cron.daily',
  '/etc/sudoers.d',
  '/etc/systemd',
  '/etc/systemd/system',
  '/etc/init.d',
  '/etc/profile.d',
  '/etc/pam.d',
  '/etc/ld.so.conf.d',
  '/etc/apt/apt.conf.d',
  '/etc/NetworkManager/dispatcher.d',
  '/etc/some-program',
  '/etc/nginx',
  '/etc/nginx/modules-enabled',
  '/etc/apache2/mods-enabled',
  '/etc/nginx/sites-enabled/../../cron.d',
  '/var/spool',
  '/var/spool/cron/crontabs',
  '/var/lib/dpkg/info',
  '/usr/lib/systemd',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
  '/lib/x',
  '/lib64/x',
  '/usr/lib/x',
  '/bin/x',
  '/usr/bin/x',
  '/sbin/x',
  '/boot/grub',
  '/run/systemd/system',
  '/run/user/0/systemd',
  '/usr/share/polkit-1/rules.d',
  '/usr/libexec/x',
  '/home/me/.config',
  '/home/me/.config/systemd',
  '/home/me/.config/systemd/user',
  '/home/me/.local/share/systemd/user',
  '/home/me/.local',
  '/home/me/.config/autostart',
  '/home/me/.local/bin',
  homedir(),
  join(homedir(), '.svc'),
  join(homedir(), '.svc/x'),
  join(top, 'dist'),
  join(top, 'dist/www'),
  join(top, 'bin'),
  join(top, 'node_modules/x'),
  top,
  dirname(top),
  dirname(process.execPath)
]

t.test('refuses system paths, and paths that would create one', async t => {
  for (const path of closed)
    t.throws(() => checkDeployPath(path, { home }), { code: 'invalid_field', field: 'deployPath' }, path)
  t.throws(() => checkDeployPath('/etc/cron.d', { home }), { message: /--allow-system-paths/ })
  const directory = realpathSync(t.testdir({ ok: {} }))
  symlinkSync('/etc/cron.d', join(directory, 'to-cron'))
  t.throws(() => checkDeployPath(join(directory, 'to-cron/x'), { home }), { message: /leads to/ })
})

t.test('accepts the usual places of sites and applications', async t => {
  for (const path of [
    '/etc/nginx/sites-enabled',
    '/etc/nginx/conf.d',
    '/etc/apache2/sites-available/x',
    '/etc/caddy/sites',
    '/etc/opt/app',
    '/usr/share/nginx/html',
    '/usr/local/lib/app',
    '/var/lib/app',
    '/var/www',
    '/opt/app',
    '/srv/app/bin',
    '/srv/app/etc/cron.d',
    '/srv/lib',
    '/home/me/site',
    '/home/me/.local/share/app',
    '/home/me/.config/app',
    '/srv/a.ssh',
    '/srv/.sshd',
    '/run/media/me/disk',
    join(top, '.tap/x')
  ]) {
    t.equal(systemPathFault(path), null, path)
    t.equal(checkDeployPath(path, { home }), path)
  }
})

t.test('accepts system paths if the operator allows them, but never the forbidden ones', async t => {
  const rules = { home, allowSystemPaths: true }
  // A checkout may be in a directory that is never a target, such as /tmp.
  for (const path of closed.filter(
    path => path !== dirname(top) && !/^\/(bin|sbin|lib|lib64|boot)$|^(\/root|\/usr\/bin)$/.test(path)
  )) {
    t.doesNotThrow(() => checkDeployPath(path, rules), path)
  }
  for (const path of [
    '/',
    '/etc',
    '/proc/1',
    '/sys/x',
    '/dev/x',
    home,
    join(home, 'x'),
    `${home}.before-2026-01-01T00-00-00/x`
  ]) {
    t.throws(() => checkDeployPath(path, rules), path)
  }
})

t.test('refuses every path that docs/security.md lists', async t => {
  const [, section = ''] =
    /## System directories\n([^]*?)\n`svc serve/.exec(readFileSync(join(top, 'docs/security.md'), 'utf8')) ?? []
  const paths = [...section.matchAll(/`(\/[\w./*-]+)`/g)]
    .map(([, path = '']) => path.replace('*', '64'))
    .filter(path => !/^\/(S|L)/.test(path))
  t.ok(paths.length > 20)
  for (const path of paths) t.throws(() => checkDeployPath(path, { home }), { code: 'invalid_field' }, path)
})

const reserved = ['public/down.html']

t.test('refuses entries at a reserved path, below it, and files in its way', async t => {
  for (const [path, kind] of [
    ['public/down.html', 'file'],
    ['public/down.html', 'symlink'],
    ['public/down.html', 'directory'],
    ['PUBLIC/Down.html', 'file'],
    ['public/down.html/a', 'file'],
    ['public', 'file'],
    ['public', 'symlink']
  ] as const) {
    const entries = [
      { path: 'index.html', kind: 'file' as const },
      { path, kind }
    ]
    t.throws(() => refuseReserved(entries, reserved), { code: 'reserved_path', kind: 'conflict' }, `${kind} ${path}`)
  }
})

t.test('accepts everything else', async t => {
  const entries = ['', 'public', 'public/down', 'public/down.html.gz', 'down.html', 'publi'].map(path => ({
    path,
    kind: path === '' || path === 'public' ? ('directory' as const) : ('file' as const)
  }))
  refuseReserved(entries, reserved)
  refuseReserved([{ path: 'public/down.html', kind: 'file' }], [])
  t.pass()
})

t.test('the policy comes before the umask, and the umask before the archive', async t => {
  const modes = { file: 0o640, directory: 0o2750 }
  for (const [rules, kind, given, expected] of [
    [{ umask: null }, 'file', 0o604, 0o604],
    [{ umask: null }, 'file', null, null],
    [{ umask: 0o027 }, 'file', 0o755, 0o750],
    [{ umask: 0o027 }, 'directory', null, 0o750],
    [{ umask: 0o077, modes }, 'file', 0o600, 0o640],
    [{ umask: 0o077, modes }, 'file', null, 0o640],
    [{ umask: null, modes }, 'file', 0o100, 0o750],
    [{ umask: null, modes: { file: 0o604, directory: null } }, 'file', 0o001, 0o705],
    [{ umask: null, modes }, 'directory', 0o700, 0o2750],
    [{ umask: 0o077, modes: { file: 0o644, directory: null } }, 'directory', 0o755, 0o700],
    [{ umask: 0o077, modes }, 'symlink', null, null]
  ] as const)
    t.equal(modeUnder(rules, kind, given), expected, `${JSON.stringify(rules)} ${kind} ${given?.toString(8)}`)
})

t.test('files and directories get the group of the policy, links do not', async t => {
  const modes = { file: null, directory: null, group: 0 }
  const kinds = ['file', 'directory', 'symlink'] as const
  t.strictSame(
    kinds.map(kind => groupUnder({ modes }, kind)),
    [0, 0, undefined]
  )
  t.strictSame(
    kinds.map(kind => groupUnder({ modes: { ...modes, group: null } }, kind)),
    [undefined, undefined, undefined]
  )
})
