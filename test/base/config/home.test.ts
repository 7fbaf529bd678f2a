import t from 'tap'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { chmod, chown, lstat, readdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import {
  ensureHome,
  locateHome,
  networkFileSystem,
  noSpaceFor,
  readConfig,
  readPublicUrl,
  refuseLooseHome,
  refuseNetworkHome,
  warningOfRoot,
  writeConfig
} from '../../../lib/base/config/home.js'
import { smallDisk } from '../../support/small-disk.js'
import { configSays } from '../../support/sentences/config.js'
import { matching } from '../../support/sentences/matching.js'

const noModes = process.platform === 'win32' ? 'Windows has no permission bits' : false
const root = process.getuid?.() === 0 ? 'root may write everywhere' : noModes

t.test('locates the data directory', t => {
  t.equal(locateHome({}).directory, join(homedir(), '.svc'))
  t.equal(locateHome({ SVC_HOME: '' }).directory, join(homedir(), '.svc'))
  t.equal(locateHome({ SVC_HOME: '~/x' }).directory, join(homedir(), 'x'))
  t.equal(locateHome({ SVC_HOME: 'x/y' }, '/a').directory, '/a/x/y')
  t.strictSame(locateHome({ SVC_HOME: '/srv/svc/' }), {
    directory: '/srv/svc',
    variablesKey: '/srv/svc/variables.key',
    keys: '/srv/svc/keys',
    configFile: '/srv/svc/config.json',
    database: '/srv/svc/svc.db',
    deployments: '/srv/svc/deployments',
    restored: '/srv/svc/svc.restored',
    tmp: '/srv/svc/tmp'
  })
  t.end()
})

t.test('creates a directory that only its owner can access', { skip: noModes }, async t => {
  const home = locateHome({ SVC_HOME: 'a/b' }, t.testdir({}))
  await ensureHome(home)
  for (const directory of [home.directory, home.deployments, home.tmp]) {
    t.equal((await stat(directory)).mode & 0o777, 0o700, directory)
  }
  await ensureHome(home)
})

t.test('refuses a directory that cannot be used and names the cause', async t => {
  const directory = t.testdir({ file: '', closed: {} })
  await t.rejects(ensureHome(locateHome({ SVC_HOME: 'file' }, directory)), {
    code: 'home_not_a_directory',
    message: configSays.isFile
  })
  await t.rejects(ensureHome(locateHome({ SVC_HOME: 'file/x' }, directory)), {
    code: 'home_not_a_directory',
    message: configSays.pathIsFile
  })
  await t.test('not writable', { skip: root }, async t => {
    await chmod(join(directory, 'closed'), 0o500)
    t.teardown(() => chmod(join(directory, 'closed'), 0o700))
    await t.rejects(ensureHome(locateHome({ SVC_HOME: 'closed' }, directory)), {
      code: 'home_not_writable',
      message: configSays.mayNotWrite
    })
    await t.rejects(ensureHome(locateHome({ SVC_HOME: '/usr' })), {
      message: configSays.ownedByRoot
    })
    await t.rejects(ensureHome(locateHome({ SVC_HOME: 'closed/x' }, directory)), {
      code: 'home_not_writable',
      message: configSays.mayNotCreate
    })
  })
})

t.test(
  'warns root about a directory of another user',
  { skip: root === false && 'only root can change the owner of a file' },
  async t => {
    const directory = t.testdir({})
    t.equal(await warningOfRoot({ directory }), null)
    await chown(directory, 65534, 65534)
    t.match(await warningOfRoot({ directory }), configSays.runsAsRoot)
  }
)

t.test('reports a full disk when the server starts', async t => {
  const full = [Object.assign(new Error('x'), { code: 'ENOSPC' }), new Refusal('unavailable', 'disk_full', 'x')]
  for (const error of full)
    t.match(noSpaceFor('/srv', error), { code: 'no_space', message: configSays.noSpace('/srv') })
  for (const error of [new Error('x'), new Refusal('unavailable', 'other', 'x')])
    t.equal(noSpaceFor('/srv', error), null)
})

t.test('reads a missing config.json as empty, and writes one with mode 0600 that keeps unknown keys', async t => {
  const home = locateHome({ SVC_HOME: join(t.testdir({}), 'home') })
  t.strictSame(await readConfig(home), {})
  await writeConfig(home, config => void (config.serverUrl = 'http://a'))
  await writeFile(home.configFile, JSON.stringify({ later: [1], serverUrl: 'http://a', token: 'x' }))
  t.strictSame(
    await writeConfig(home, config => {
      config.token = undefined
      config.projectToken = { ...config.projectToken, 'p:e': 't' }
    }),
    { later: [1], serverUrl: 'http://a', token: undefined, projectToken: { 'p:e': 't' } }
  )
  t.equal(
    await readFile(home.configFile, 'utf8'),
    '{\n  "later": [\n    1\n  ],\n  "serverUrl": "http://a",\n  "projectToken": {\n    "p:e": "t"\n  }\n}\n'
  )
  if (!noModes) t.equal((await stat(home.configFile)).mode & 0o777, 0o600)
  t.strictSame(await readdir(home.directory), ['config.json'], 'nothing is left beside it')
})

t.test('refuses a broken config.json with path and line, and never overwrites it', async t => {
  const directory = t.testdir({ 'config.json': '{\n  "token": x\n}' })
  const home = locateHome({ SVC_HOME: directory })
  const refused = {
    code: 'broken_config',
    message: matching(configSays.unreadable('config.json'), configSays.notJson(2, 12, '"x"'))
  }
  await t.rejects(readConfig(home), refused)
  await t.rejects(
    writeConfig(home, config => void (config.token = 'y')),
    refused
  )
  t.equal(await readFile(home.configFile, 'utf8'), '{\n  "token": x\n}')
  t.strictSame(await readdir(directory), ['config.json'])
})

t.test('names a key of the wrong type', async t => {
  const table: Array<[json: string, sentence: string]> = [
    ['{"token": 1}', `"token"${configSays.mustBeText}`],
    ['{"projectToken": {"a": 1}}', `"projectToken"${configSays.mustBeTextMap}`],
    ['{"projectToken": []}', `"projectToken"${configSays.mustBeTextMap}`],
    ['{"telemetryEnabled": "no"}', `"telemetryEnabled"${configSays.mustBeSwitch}`]
  ]
  for (const [json, sentence] of table) {
    const home = locateHome({ SVC_HOME: t.testdir({ 'config.json': json }) })
    await t.rejects(readConfig(home), { code: 'broken_config', message: sentence }, json)
  }
  await t.rejects(readConfig(locateHome({ SVC_HOME: t.testdir({ 'config.json': {} }) })), { code: 'config_unreadable' })
})

t.test('loses no change of concurrent writers, and ignores a stale lock', async t => {
  const home = locateHome({ SVC_HOME: t.testdir({ 'config.json': '{"n": 0}', 'config.json.lock': '' }) })
  await utimes(`${home.configFile}.lock`, 0, 0)
  const add = (): Promise<unknown> => writeConfig(home, config => void (config['n'] = (config['n'] as number) + 1))
  await Promise.all(Array.from({ length: 20 }, add))
  t.strictSame(await readConfig(home), { n: 20 })
})

t.test('keeps config.json a link if it is one', { skip: noModes }, async t => {
  const directory = t.testdir({ home: {}, dotfiles: { 'svc.json': '{}' } })
  const home = locateHome({ SVC_HOME: join(directory, 'home') })
  await symlink('../dotfiles/svc.json', home.configFile)
  await writeConfig(home, config => void (config.serverUrl = 'http://b'))
  t.ok((await lstat(home.configFile)).isSymbolicLink())
  t.strictSame(JSON.parse(await readFile(join(directory, 'dotfiles/svc.json'), 'utf8')), { serverUrl: 'http://b' })
})

t.test('refuses a change of config.json on a full disk and keeps the old contents', async t => {
  const disk = smallDisk(t, 1024 * 1024)
  if (disk === null) return
  const home = { directory: disk, configFile: join(disk, 'config.json') }
  await writeConfig(home, config => void (config.adminToken = 'kept'))
  writeFileSync(join(disk, 'full'), '')
  try {
    for (;;) appendFileSync(join(disk, 'full'), Buffer.alloc(4096))
  } catch (error) {
    t.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
  }
  const change = writeConfig(home, config => void (config.adminToken = 'changed'))
  await t.rejects(change, {
    name: 'Refusal',
    kind: 'unavailable',
    code: 'disk_full'
  })
  t.match(await readConfig(home), { adminToken: 'kept' })
  t.strictSame(readdirSync(disk).sort(), ['config.json', 'full'])
  rmSync(join(disk, 'full'))
  t.match(await writeConfig(home, config => void (config.adminToken = 'changed')), { adminToken: 'changed' })
})

const noOwners = process.getuid === undefined && 'Windows has no POSIX permissions'
const notRoot = process.getuid?.() !== 0 && 'only root can give files away'
const [someone, another] = [65_534, 65_533]

/** A data directory inside a sticky directory, and the changes to make to it. */
function aHome(t: { teardown(work: () => void): void }): string {
  const top = mkdtempSync(join(tmpdir(), 'svc-trusted-'))
  t.teardown(() => rmSync(top, { recursive: true, force: true }))
  const home = join(top, 'home')
  mkdirSync(join(home, 'deployments'), { recursive: true, mode: 0o700 })
  for (const name of ['config.json', 'svc.db']) writeFileSync(join(home, name), '{}', { mode: 0o600 })
  return home
}

interface Case {
  what: string
  change(home: string): void
  /** The expected reason and the expected advice; null if the directory is accepted. */
  refused: RegExp | null
  skip?: string | false
}

const mode = (name: string, bits: number) => (home: string) => chmodSync(join(home, name), bits)
const give =
  (uid: number, ...names: string[]) =>
  (home: string) =>
    names.forEach(name => chownSync(join(home, name), uid, uid))
const all = ['', 'deployments', 'config.json', 'svc.db']

const cases: Case[] = [
  { what: 'only the owner has access', change: () => {}, refused: null },
  {
    what: 'others have read access',
    change: home => ['', 'config.json'].forEach(name => chmodSync(join(home, name), 0o755)),
    refused: null
  },
  {
    what: 'others have write access',
    change: mode('', 0o777),
    refused: matching(configSays.othersMayWrite('.*/home', '0777'), /\. Run "chmod go-w .*\/home"/)
  },
  { what: 'its group has write access', change: mode('', 0o770), refused: /mode 0770/ },
  {
    what: 'others have write access to config.json',
    change: mode('config.json', 0o666),
    refused: /".*\/config\.json" \(mode 0666\)\. Run "chmod go-w .*\/config\.json"/
  },
  {
    what: 'others have write access to the key',
    change: home => {
      writeFileSync(join(home, 'variables.key'), 'x')
      chmodSync(join(home, 'variables.key'), 0o666)
    },
    refused: /variables\.key" \(mode 0666\)/
  },
  {
    what: 'the group has write access to config.json',
    change: mode('config.json', 0o660),
    refused: /config\.json" \(mode 0660\)/
  },
  {
    what: 'others have write access to the database',
    change: mode('svc.db', 0o606),
    refused: /svc\.db" \(mode 0606\)/
  },
  {
    what: 'others have write access to deployments',
    change: mode('deployments', 0o777),
    refused: /deployments" \(mode 0777\)/
  },
  {
    what: 'others have write access to the keys that sign releases',
    change(home) {
      mkdirSync(join(home, 'keys'), { recursive: true, mode: 0o700 })
      writeFileSync(join(home, 'keys/allowed_signers'), '')
      chmodSync(join(home, 'keys/allowed_signers'), 0o666)
    },
    refused: /allowed_signers" \(mode 0666\)/
  },
  {
    what: 'others have write access to the parent directory',
    change: mode('..', 0o777),
    refused: configSays.othersMayWrite('/.*svc-trusted-\\w+', '0777')
  },
  { what: 'others have write access to a sticky parent directory', change: mode('..', 0o1777), refused: null },
  {
    what: 'config.json is a link to a file that others can write',
    change(home) {
      writeFileSync(join(home, '../linked.json'), '{}')
      chmodSync(join(home, '../linked.json'), 0o666)
      rmSync(join(home, 'config.json'))
      symlinkSync('../linked.json', join(home, 'config.json'))
    },
    refused: /linked\.json" \(mode 0666\)/
  },
  { what: 'root uses the directory of a service user', change: give(someone, ...all), refused: null, skip: notRoot },
  {
    what: 'root uses the directory of a service user that contains files of root',
    change: give(someone, '', 'deployments'),
    refused: null,
    skip: notRoot
  },
  {
    what: 'root uses a directory with a config.json of a third user',
    change: home => (give(someone, ...all)(home), give(another, 'config.json')(home)),
    refused: matching(configSays.belongsTo('config.json', 65533), 'Run "chown 65534'),
    skip: notRoot
  },
  {
    what: 'root’s directory contains a config.json of another user',
    change: give(someone, 'config.json'),
    refused: matching(configSays.belongsTo('config.json', 65534), 'Run "chown 0'),
    skip: notRoot
  }
]

t.test('refuses a data directory that others could change, with advice', { skip: noOwners }, async t => {
  for (const { what, change, refused, skip = false } of cases) {
    await t.test(what, { skip }, async t => {
      const home = aHome(t)
      change(home)
      if (refused === null) return void (await t.resolves(refuseLooseHome(home)))
      await t.rejects(refuseLooseHome(home), {
        code: 'unsafe_home',
        message: configSays.untrusted
      })
      await t.rejects(refuseLooseHome(home), { message: refused })
    })
  }
})

t.test('recognises network file systems by the type from statfs', async t => {
  const table: Array<[type: number, name: string | null]> = [
    [0x6969, 'NFS'],
    [0xff534d42, 'CIFS'],
    [0xff534d42 | 0, 'CIFS'],
    [0xfe534d42, 'SMB'],
    [0xef53, null],
    [0x01021994, null],
    [0x9123683e, null],
    [0, null]
  ]
  for (const [type, name] of table) t.equal(networkFileSystem(type), name, `0x${type.toString(16)}`)
})

t.test(
  'refuses a data directory on NFS with advice, unless the operator allows it',
  { skip: process.platform !== 'linux' && 'only Linux has the types' },
  async t => {
    const home = { directory: '/home/user/.svc' }
    const nfs = async (): Promise<number> => 0x6969
    const refused = {
      code: 'home_on_network',
      message: matching(configSays.onNetwork('/home/user/.svc', 'NFS'), /.*/, configSays.networkCure)
    }
    await t.rejects(refuseNetworkHome(home, {}, nfs), refused)
    await t.rejects(refuseNetworkHome(home, { SVC_NETWORK_HOME: '0' }, nfs), refused)
    await refuseNetworkHome(home, { SVC_NETWORK_HOME: '1' }, nfs)
    await refuseNetworkHome({ directory: t.testdir({}) }, {})
    await refuseNetworkHome(home, {}, () => Promise.reject(new Error('no statfs')))
  }
)

const read = (SVC_PUBLIC_URL: string | undefined, base = '') => readPublicUrl({ SVC_PUBLIC_URL }, base)

t.test('returns public addresses without a trailing slash', async t => {
  const cases: Array<[text: string | undefined, base: string, expected: string | null]> = [
    [undefined, '', null],
    ['', '/tools/svc', null],
    ['https://deploy.example.org', '', 'https://deploy.example.org'],
    ['https://deploy.example.org/', '', 'https://deploy.example.org'],
    [' http://DEPLOY.example.org:8080/ ', '', 'http://deploy.example.org:8080'],
    ['https://deploy.example.org:443/tools/svc/', '/tools/svc', 'https://deploy.example.org/tools/svc'],
    ['https://[2001:db8::1]/a', '/a', 'https://[2001:db8::1]/a']
  ]
  for (const [text, base, expected] of cases) t.equal(read(text, base), expected, String(text))
})

t.test('refuses invalid public addresses and says why', async t => {
  const cases: Array<[text: string, base: string, sentence: string]> = [
    ['deploy.example.org', '', configSays.publicUrl('deploy.example.org') + configSays.publicUrlForm],
    ['/tools/svc', '/tools/svc', configSays.publicUrlForm],
    ['ftp://deploy.example.org', '', configSays.publicUrlForm],
    ['https://', '', configSays.publicUrlForm],
    [
      'https://me:secret@deploy.example.org',
      '',
      configSays.publicUrl('https://deploy.example.org/') + configSays.publicUrlPassword
    ],
    ['//me:secret@deploy.example.org', '', configSays.publicUrl('//deploy.example.org')],
    ['https://deploy.example.org?a=1', '', configSays.publicUrlQuery],
    ['https://deploy.example.org/#', '', configSays.publicUrlQuery],
    ['https://deploy.example.org/tools', '', configSays.publicUrlNoBase],
    ['https://deploy.example.org', '/tools/svc', configSays.publicUrlBase('/tools/svc')]
  ]
  for (const [text, base, message] of cases) {
    t.throws(
      () => read(text, base),
      { kind: 'invalid', code: 'invalid_public_url', field: 'SVC_PUBLIC_URL', message },
      text
    )
  }
})
