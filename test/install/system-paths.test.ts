import t from 'tap'
import { readFileSync, realpathSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkDeployPath } from '../../lib/install/guard.js'
import { systemPathFault } from '../../lib/install/system-paths.js'

const home = '/var/lib/svc-test-home'
/** The directory of this program. */
const top = fileURLToPath(new URL('../../../', import.meta.url)).slice(0, -1)

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
