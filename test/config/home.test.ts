import { appendFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { chmod, chown, readdir, readFile, stat, symlink, lstat, utimes, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { locateHome, noSpaceFor, openHome, readConfig, warningOfRoot, writeConfig } from '../../lib/config/home.js'
import { smallDisk } from '../support/small-disk.js'
import { configSays } from '../support/sentences/config.js'
import { matching } from '../support/sentences/matching.js'

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
  const home = await openHome({ SVC_HOME: 'a/b' }, t.testdir({}))
  for (const directory of [home.directory, home.deployments, home.tmp]) {
    t.equal((await stat(directory)).mode & 0o777, 0o700, directory)
  }
  await openHome({ SVC_HOME: home.directory })
})

t.test('refuses a directory that cannot be used and names the cause', async t => {
  const directory = t.testdir({ file: '', closed: {} })
  await t.rejects(openHome({ SVC_HOME: 'file' }, directory), {
    code: 'home_not_a_directory',
    message: configSays.isFile
  })
  await t.rejects(openHome({ SVC_HOME: 'file/x' }, directory), {
    code: 'home_not_a_directory',
    message: configSays.pathIsFile
  })
  await t.test('not writable', { skip: root }, async t => {
    await chmod(join(directory, 'closed'), 0o500)
    t.teardown(() => chmod(join(directory, 'closed'), 0o700))
    await t.rejects(openHome({ SVC_HOME: 'closed' }, directory), {
      code: 'home_not_writable',
      message: configSays.mayNotWrite
    })
    await t.rejects(openHome({ SVC_HOME: '/usr' }), {
      message: configSays.ownedByRoot
    })
    await t.rejects(openHome({ SVC_HOME: 'closed/x' }, directory), {
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
