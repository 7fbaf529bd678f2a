import t from 'tap'
import { createDeny } from '../../lib/logs/deny.js'

const deny = createDeny(['/home/a/.svc', '/data/svc'])

t.test('secrets are denied, whatever their directory', async t => {
  for (const path of [
    '/home/a/.svc/config.json', '/data/svc/config.json', '/home/a/.svc/variables.key', '/home/a/.svc/variables.key.0123456789ab.tmp', '/home/a/.svc/svc.db', '/home/a/.svc/svc.db.redo', '/home/a/.svc/svc.db.tmp',
    '/home/a/.svc/svc.db.schema-5', '/home/a/.svc/before-restore-x/config.json', '/data/svc.before-2026-01-01T00-00-00/svc.db',
    '/etc/shadow', '/etc/shadow-', '/etc/gshadow', '/etc/sudoers', '/etc/sudoers.d/admin', '/private/etc/master.passwd',
    '/home/a/.ssh/authorized_keys', '/home/a/.ssh/deep/known_hosts', '/srv/tls/site.pem', '/srv/tls/site.key', '/srv/id_rsa',
    '/proc/self/environ', '/proc', '/sys/kernel/x', '/dev/stdin', '/srv/app/.env', '/srv/app/.env.local', '/root/.npmrc', '/root/.netrc', '/root/.pgpass',
    '/etc/ssh/ssh_host_ed25519_key', '/srv/tls/site.p12', '/srv/tls/Site.PFX', '/srv/SITE.PEM', '/srv/a.keystore', '/srv/site.key.bak', '/srv/site.pem~', '/srv/x.keytab',
    '/root/.aws/credentials', '/home/a/.kube/config', '/root/.docker/config.json', '/root/.gnupg/x', '/root/.config/gcloud/x.json', '/root/.config/gh/hosts.yml',
    '/root/.git-credentials', '/root/.pypirc', '/root/.my.cnf', '/srv/.htpasswd', '/srv/prod.env', '/root/.cargo/credentials.toml', '/srv/terraform.tfstate',
    '/root/.bash_history', '/root/.zsh_history', '/root/.python_history', '/root/.node_repl_history', '/root/.psql_history', '/root/.mysql_history',
    '/root/.sqlite_history', '/root/.lesshst', '/root/.viminfo', '/root/.local/share/fish/fish_history', '/root/.histfile',
    '/etc/letsencrypt/live/a/x', '/etc/ssl/private/x', '/etc/wireguard/wg0.conf', '/etc/NetworkManager/system-connections/x', '/etc/security/opasswd',
    '/var/spool/cron/root', '/var/backups/shadow.bak', '/run/secrets/x', '/run/credentials/svc.service/x',
    '/srv/svc-export-2026-01-31T12-00-00.zip', '/srv/svc-backup-2026-01-31T12-00-00.zip', '/mnt/copy/svc.db', '/mnt/copy/svc.db.redo'
  ]) t.type(deny(path), 'string', path)
})

t.test('logs are not', async t => {
  for (const path of [
    '/var/log/nginx/access.log', '/home/a/.svc/pm2/out.log', '/srv/config.json', '/srv/keys.log', '/processes/x.log', '/srv/a.ssh/x',
    '/etc/shadowsocks/x.log'.replace('shadowsocks', 'nginx'), '/srv/environment.log', '/devices/a.log', '/var/log/apt/history.log', '/srv/deploy_history.log', '/srv/monkey', '/srv/x.key.log',
    '/srv/app.docker/x.log', '/srv/site.zip', '/srv/svc-export.md', '/srv/identity.log', '/srv/hist.log'
  ]) t.equal(deny(path), null, path)
})
