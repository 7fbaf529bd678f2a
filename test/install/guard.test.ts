import t from 'tap'
import { lstatSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { checkDeployPath, ensureTarget } from '../../lib/install/guard.js'
import { Refusal } from '../../lib/base/errors.js'
import { refusalOf } from '../support/extraction.js'

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
