import {
  linkSync,
  mkdirSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  readFileSync,
  realpathSync,
  rmSync
} from 'node:fs'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { zipOf } from '../../../support/zip.js'
import {
  createOpenLog,
  openAgain,
  createDeny,
  createOwnFiles,
  createSecrets
} from '../../../../lib/operate/logs/read/open.js'
import { open, realpath, stat } from 'node:fs/promises'
import { createRandom } from '../../../support/random.js'
import { firstSeed } from '../../../support/thorough.js'

t.test('applies the deny list to the file that is really opened', async t => {
  const directory = t.testdir({ home: { 'config.json': '{}' }, 'app.log': 'x\n', sub: {} })
  const home = join(directory, 'home')
  const openLog = createOpenLog({ deny: createDeny([home]), secrets: [join(home, 'config.json')] })
  const path = (name: string): string => join(directory, name)
  const code = (name: string): Promise<string> =>
    openLog(path(name)).then(
      async ({ handle }) => {
        await handle.close()
        return 'opened'
      },
      error => error.code
    )

  t.equal(await code('app.log'), 'opened')
  symlinkSync('app.log', path('link'))
  t.equal(await code('link'), 'opened')
  symlinkSync(join(home, 'config.json'), path('sly.log'))
  t.equal(await code('sly.log'), 'denied_path')
  symlinkSync('home', path('elsewhere'))
  t.equal(await code('elsewhere/config.json'), 'denied_path', 'through a linked directory')
  linkSync(join(home, 'config.json'), path('hard.log'))
  t.equal(await code('hard.log'), 'denied_path', 'a hard link')
  symlinkSync('circle', path('circle'))
  t.equal(await code('circle'), 'invalid_field')
  t.equal(await code('nothing'), 'file_missing')
  t.equal(await code('sub'), 'not_a_file')
  t.equal(await code('app.log/x'), 'file_missing')
  if (process.platform !== 'win32') {
    execFileSync('mkfifo', [path('fifo')])
    t.equal(await code('fifo'), 'not_a_file', 'a FIFO does not hang')
  }
  writeFileSync(path('locked'), 'x', { mode: 0 })
  if (process.getuid?.() === 0) t.comment('root may read everything: not_readable is skipped')
  else t.equal(await code('locked'), 'not_readable')

  const packed = async (root: string): Promise<Buffer> => Buffer.from(await zipOf({ [`${root}/settings.json`]: '{}' }))
  writeFileSync(path('renamed.log'), await packed('svc-export'))
  t.equal(await code('renamed.log'), 'denied_path', 'a package, whatever its name')
  writeFileSync(path('nightly'), await packed('svc-backup'))
  t.equal(await code('nightly'), 'denied_path', 'a backup, whatever its name')
  writeFileSync(path('site.zip'), await packed('site'))
  t.equal(await code('site.zip'), 'opened')

  t.test('opens nothing else if a link changes while it is opened', async t => {
    mkdirSync(path('race'))
    const turned = path('race/log')
    const turn = (target: string): void => {
      symlinkSync(target, path('race/next'))
      renameSync(path('race/next'), turned)
    }
    let isOver = false
    const turning = (async () => {
      for (let round = 0; !isOver; round++) {
        turn(round % 2 === 0 ? path('app.log') : join(home, 'config.json'))
        await new Promise(setImmediate)
      }
    })()
    for (let round = 0; round < 300; round++) {
      const log = await openLog(turned).catch(() => null)
      if (log === null) continue
      t.equal(String(await log.handle.readFile()), 'x\n')
      await log.handle.close()
    }
    isOver = true
    await turning
    unlinkSync(turned)
  })
})

t.test('opens the same file again, or none', async t => {
  const directory = t.testdir({ 'app.log': 'x\n', 'other.log': 'y\n' })
  const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })
  const path = join(directory, 'app.log')
  const log = await openLog(path)
  t.teardown(() => log.handle.close())
  const again = await openAgain(log)
  t.equal((await again.readFile()).toString(), 'x\n')
  await again.close()
  renameSync(path, join(directory, 'rotated.log'))
  await t.rejects(openAgain(log), { code: 'ENOENT' })
  renameSync(join(directory, 'other.log'), path)
  await t.rejects(openAgain(log), { code: 'ENOENT' }, 'another file')
  unlinkSync(path)
  symlinkSync('rotated.log', path)
  await t.rejects(openAgain(log), 'a link')
  unlinkSync(path)
  if (process.platform === 'win32') return
  execFileSync('mkfifo', [path])
  await t.rejects(openAgain(log), { code: 'ENOENT' }, 'a pipe, without waiting for its writer')
})

t.test('judges an open file by its path, its other names and its contents', async t => {
  const directory = t.testdir({ 'own.db': 'tokens', 'a.log': 'x', '.env': 'x', empty: '' })
  const path = (name: string): string => join(directory, name)
  linkSync(path('own.db'), path('hard.log'))
  writeFileSync(path('backup'), await zipOf({ 'svc-backup/svc.db': 'x' }))
  const package1 = await zipOf({ 'svc-export/settings.json': '{}' })
  writeFileSync(path('package'), package1)
  writeFileSync(path('site'), await zipOf({ 'index.html': 'x', 'svc-export/x': 'x' }))
  writeFileSync(path('copy.log'), '-----BEGIN PRIVATE KEY-----\n')
  writeFileSync(path('rsa.log'), '-----BEGIN RSA PRIVATE KEY-----\n')
  writeFileSync(path('cut'), package1.subarray(0, 20))
  const secrets = createSecrets({ deny: createDeny([]), secrets: [path('own.db'), path('missing')] })
  const judge = async (name: string): Promise<string> => {
    const handle = await open(path(name))
    try {
      await secrets.checkOpened(handle, path(name), { asked: name, field: 'path' })
      return 'shown'
    } catch (error) {
      return (error as { code: string }).code
    } finally {
      await handle.close()
    }
  }
  for (const name of ['a.log', 'empty', 'site', 'cut']) t.equal(await judge(name), 'shown', name)
  for (const name of ['.env', 'hard.log', 'backup', 'package', 'copy.log', 'rsa.log'])
    t.equal(await judge(name), 'denied_path', name)

  const handle = await open(path('a.log'))
  await secrets.checkOpened(handle, path('a.log'), { asked: 'a.log', field: 'path' })
  t.equal(await handle.readFile('utf8'), readFileSync(path('a.log'), 'utf8'), 'reading still starts at the beginning')
  await handle.close()
})

t.test('names the target of an absolute path in the refusal, but not that of a relative one', async t => {
  const secrets = createSecrets({ deny: createDeny([]), secrets: [] })
  const check = (asked: string) => () => secrets.checkPath('/srv/shop/.env', { asked, field: 'path' })
  t.throws(check('/srv/x'), {
    code: 'denied_path',
    message: 'Cannot read "/srv/x", which leads to "/srv/shop/.env": it may contain passwords'
  })
  t.throws(check('x'), { code: 'denied_path', message: 'Cannot read "x": it may contain passwords' })
  t.doesNotThrow(() => secrets.checkPath('/srv/a.log', { asked: 'x', field: 'path' }))
})

const deny = createDeny(['/home/a/.svc', '/data/svc'])

t.test('denies secrets in every directory', async t => {
  for (const path of [
    '/home/a/.svc/config.json',
    '/data/svc/config.json',
    '/home/a/.svc/variables.key',
    '/home/a/.svc/variables.key.0123456789ab.tmp',
    '/home/a/.svc/svc.db',
    '/home/a/.svc/svc.db.redo',
    '/home/a/.svc/svc.db.tmp',
    '/home/a/.svc/svc.db.schema-5',
    '/home/a/.svc/before-restore-x/config.json',
    '/home/a/.svc/keys/server.ed25519',
    '/home/a/.svc/KEYS/server.old.ed25519',
    '/home/a/.svc/cluster.key',
    '/home/a/.svc/session.key',
    '/home/a/.svc/agent.json',
    '/home/a/.svc/node/keys/agent.ed25519',
    '/home/a/.svc/deployments/dep_a.zip',
    '/home/a/.svc/deployments/dep_a.before.zip',
    '/home/a/.svc/deployments/x/dep_a.log',
    '/home/a/.svc/tmp/x.log',
    '/home/a/.svc/pm2/ecosystem.config.cjs',
    '/home/a/.svc',
    '/data/svc.before-2026-01-01T00-00-00/deployments/x.log',
    '/data/svc.before-2026-01-01T00-00-00/svc.db',
    '/etc/shadow',
    '/etc/shadow-',
    '/etc/gshadow',
    '/etc/sudoers',
    '/etc/sudoers.d/admin',
    '/private/etc/master.passwd',
    '/home/a/.ssh/authorized_keys',
    '/home/a/.ssh/deep/known_hosts',
    '/srv/tls/site.pem',
    '/srv/tls/site.key',
    '/srv/id_rsa',
    '/proc/self/environ',
    '/proc',
    '/sys/kernel/x',
    '/dev/stdin',
    '/srv/app/.env',
    '/srv/app/.env.local',
    '/root/.npmrc',
    '/root/.netrc',
    '/root/.pgpass',
    '/etc/ssh/ssh_host_ed25519_key',
    '/srv/tls/site.p12',
    '/srv/tls/Site.PFX',
    '/srv/SITE.PEM',
    '/srv/a.keystore',
    '/srv/site.key.bak',
    '/srv/site.pem~',
    '/srv/x.keytab',
    '/root/.aws/credentials',
    '/home/a/.kube/config',
    '/root/.docker/config.json',
    '/root/.gnupg/x',
    '/root/.config/gcloud/x.json',
    '/root/.config/gh/hosts.yml',
    '/root/.git-credentials',
    '/root/.pypirc',
    '/root/.my.cnf',
    '/srv/.htpasswd',
    '/srv/prod.env',
    '/root/.cargo/credentials.toml',
    '/srv/terraform.tfstate',
    '/root/.bash_history',
    '/root/.zsh_history',
    '/root/.python_history',
    '/root/.node_repl_history',
    '/root/.psql_history',
    '/root/.mysql_history',
    '/root/.sqlite_history',
    '/root/.lesshst',
    '/root/.viminfo',
    '/root/.local/share/fish/fish_history',
    '/root/.histfile',
    '/etc/letsencrypt/live/a/x',
    '/etc/ssl/private/x',
    '/etc/wireguard/wg0.conf',
    '/etc/NetworkManager/system-connections/x',
    '/etc/security/opasswd',
    '/var/spool/cron/root',
    '/var/backups/shadow.bak',
    '/run/secrets/x',
    '/run/credentials/svc.service/x',
    '/srv/svc-export-2026-01-31T12-00-00.zip',
    '/srv/svc-backup-2026-01-31T12-00-00.zip',
    '/mnt/copy/svc.db',
    '/mnt/copy/svc.db.redo'
  ])
    t.type(deny(path), 'string', path)
})

t.test('allows logs', async t => {
  for (const path of [
    '/var/log/nginx/access.log',
    '/home/a/.svc/pm2/out.log',
    '/home/a/.svc/deployments/dep_a.log',
    '/home/a/.svc/node/deployments/dep_a.log',
    '/srv/config.json',
    '/srv/keys.log',
    '/processes/x.log',
    '/srv/a.ssh/x',
    '/etc/shadowsocks/x.log'.replace('shadowsocks', 'nginx'),
    '/srv/environment.log',
    '/devices/a.log',
    '/var/log/apt/history.log',
    '/srv/deploy_history.log',
    '/srv/monkey',
    '/srv/x.key.log',
    '/srv/app.docker/x.log',
    '/srv/site.zip',
    '/srv/svc-export.md',
    '/srv/identity.log',
    '/srv/hist.log'
  ])
    t.equal(deny(path), null, path)
})

const root = realpathSync(
  t.testdir({
    home: {
      'config.json': '{}',
      keys: { 'server.ed25519': 'key' },
      node: { 'agent.json': '{}', keys: { 'agent.ed25519': 'key' }, deployments: { 'dep_b.log': 'output' } },
      deployments: { 'dep_a.zip': 'zip', 'dep_a.log': 'output' },
      tmp: { upload: 'zip' },
      pm2: { 'out.log': 'out', 'ecosystem.config.cjs': 'x' }
    },
    'home.before-2026': { 'config.json': '{}', keys: { 'server.ed25519': 'key' } },
    elsewhere: { password: 'x' },
    logs: {}
  })
)
const place = (...names: string[]): string => join(root, ...names)
const own = createOwnFiles({ homes: [place('home')], files: [place('elsewhere/password')] })

async function isOwn(path: string): Promise<boolean> {
  const handle = await open(path)
  try {
    return await own.has(await realpath(path), await handle.stat({ bigint: true }))
  } finally {
    await handle.close()
  }
}

const secret = [
  'home/config.json',
  'home/keys/server.ed25519',
  'home/node/agent.json',
  'home/node/keys/agent.ed25519',
  'home/deployments/dep_a.zip',
  'home/tmp/upload',
  'home/pm2/ecosystem.config.cjs',
  'home.before-2026/keys/server.ed25519',
  'elsewhere/password'
]
const shown = ['home/deployments/dep_a.log', 'home/node/deployments/dep_b.log', 'home/pm2/out.log']

t.test('knows its files by their path and by hard links', async t => {
  for (const [index, path] of secret.entries()) {
    t.equal(await isOwn(place(path)), true, path)
    linkSync(place(path), place(`logs/${index}.log`))
    t.equal(await isOwn(place(`logs/${index}.log`)), true, `a hard link to ${path}`)
  }
  for (const path of shown) t.equal(await isOwn(place(path)), false, path)
  writeFileSync(place('logs/site.log'), 'x')
  linkSync(place('logs/site.log'), place('logs/other.log'))
  t.equal(await isOwn(place('logs/other.log')), false, 'another file with two names')
})

t.test('knows files that are made, replaced and linked later', async t => {
  writeFileSync(place('home/new.key'), 'x')
  linkSync(place('home/new.key'), place('logs/new.log'))
  t.equal(await isOwn(place('logs/new.log')), true)
  rmSync(place('home/config.json'))
  writeFileSync(place('home/config.json.tmp'), '{}')
  renameSync(place('home/config.json.tmp'), place('home/config.json'))
  linkSync(place('home/config.json'), place('logs/replaced.log'))
  t.equal(await isOwn(place('logs/replaced.log')), true)
})

t.test('knows a directory that another disk or another name holds', async t => {
  mkdirSync(place('disk'))
  renameSync(place('home/deployments'), place('disk/deployments'))
  symlinkSync(place('disk/deployments'), place('home/deployments'))
  t.equal(await isOwn(place('disk/deployments/dep_a.zip')), true)
  t.equal(await isOwn(place('disk/deployments/dep_a.log')), false)
  t.equal(await own.hasPath(place('disk/deployments')), true)
  t.equal(await own.hasPath(place('disk')), false)
  renameSync(place('home'), place('moved'))
  t.equal(await isOwn(place('moved/keys/server.ed25519')), true, 'a data directory that was moved away')
  t.equal(await own.hasPath(place('moved/keys')), true)
  renameSync(place('moved'), place('home'))
})

t.test('knows files and directories behind bind mounts', async t => {
  const mounts: string[] = []
  t.teardown(() => mounts.forEach(path => void execFileSync('umount', [path])))
  const mount = (from: string, to: string): void => {
    execFileSync('mount', ['--bind', place(from), place(to)], { stdio: 'ignore' })
    mounts.push(place(to))
  }
  mkdirSync(place('mount'))
  writeFileSync(place('single.log'), '')
  try {
    mount('home', 'mount')
    mount('home/keys/server.ed25519', 'single.log')
  } catch {
    return t.comment('Skipped: this user may not mount')
  }
  t.equal((await stat(place('single.log'))).nlink, (await stat(place('home/keys/server.ed25519'))).nlink)
  for (const path of ['mount/config.json', 'mount/keys/server.ed25519', 'single.log'])
    t.equal(await isOwn(place(path)), true, path)
  t.equal(await isOwn(place('mount/pm2/out.log')), false)
  t.equal(await own.hasPath(place('mount/keys')), true)
})

t.test('seeded: knows its files after links, renames and copies in any order', async t => {
  const random = createRandom(firstSeed)
  const top = realpathSync(
    t.testdir({ home: { keys: { a: 'x' }, deployments: { 'dep_a.log': 'x', 'dep_a.zip': 'x' } }, logs: {} })
  )
  const at = (path: string): string => join(top, path)
  const files = createOwnFiles({ homes: [at('home')], files: [] })
  /** Every name so far, and whether its file is of svc itself. */
  const names = new Map([
    ['home/keys/a', true],
    ['home/deployments/dep_a.zip', true],
    ['home/deployments/dep_a.log', false]
  ])
  const done: string[] = []
  for (let n = 0; n < 60; n++) {
    const [name, isSecret] = random.oneOf([...names])
    const fresh = `logs/${n}`
    const outside = name.startsWith('logs/')
    const step = random.oneOf(['link', 'symlink', 'copy', 'new', ...(outside ? ['rename'] : [])])
    done.push(`${step} ${name} ${fresh}`)
    if (step === 'link') linkSync(at(name), at(fresh))
    else if (step === 'symlink') symlinkSync(at(name), at(fresh))
    else if (step === 'copy') writeFileSync(at(fresh), 'x')
    else if (step === 'new') writeFileSync(at(`home/keys/${n}`), 'x')
    else renameSync(at(name), at(fresh))
    if (step === 'rename') names.delete(name)
    names.set(step === 'new' ? `home/keys/${n}` : fresh, step === 'new' || (step !== 'copy' && isSecret))
    for (const [each, expected] of names) {
      const handle = await open(at(each)).catch(() => null)
      // A symbolic link to a name that was changed leads nowhere.
      if (handle === null) continue
      const found = await files.has(await realpath(at(each)), await handle.stat({ bigint: true }))
      await handle.close()
      if (found !== expected) t.fail(`seed ${firstSeed}: ${each} after ${done.join(', ')}`)
    }
  }
})
