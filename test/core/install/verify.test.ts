import t, { type Test } from 'tap'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import { verifyTarget, type VerifiedEntry } from '../../../lib/core/install/verify.js'

const rules = { home: '/nowhere/svc' }

function targetOf(t: Test, files: Record<string, string>): string {
  const target = join(t.testdir(), 'target')
  mkdirSync(target)
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(target, path, '..'), { recursive: true })
    writeFileSync(join(target, path), text, { mode: 0o644 })
  }
  return target
}

/** The entries as they are now. */
function entriesOf(target: string, paths: string[]): VerifiedEntry[] {
  return paths.map(path => {
    const place = join(target, path)
    const { mode, size } = lstatSync(place)
    const contents = lstatSync(place).isSymbolicLink() ? readlinkSync(place) : readFileSync(place)
    return { path, mode, size, sha256: createHash('sha256').update(contents).digest('hex') }
  })
}

t.test('tells how each entry differs', async t => {
  const paths = ['sub/same', 'bytes', 'size', 'gone', 'dir', 'mode', 'link', 'other-link', 'to-file', 'to-link']
  const target = targetOf(t, Object.fromEntries(paths.map(path => [path, 'one'])))
  for (const path of ['link', 'other-link', 'to-file']) {
    rmSync(join(target, path))
    symlinkSync('sub/same', join(target, path))
  }
  const entries = entriesOf(target, paths)
  const verify = () => verifyTarget({ target, rules, entries }, { disk })
  t.strictSame(verify(), [], 'nothing differs')

  const { atime, mtime } = lstatSync(join(target, 'bytes'))
  writeFileSync(join(target, 'bytes'), 'two')
  utimesSync(join(target, 'bytes'), atime, mtime)
  writeFileSync(join(target, 'size'), 'longer')
  for (const path of ['gone', 'dir', 'other-link', 'to-file', 'to-link']) rmSync(join(target, path))
  mkdirSync(join(target, 'dir'))
  chmodSync(join(target, 'mode'), 0o755)
  symlinkSync('bytes', join(target, 'other-link'))
  writeFileSync(join(target, 'to-file'), 'sub/same')
  symlinkSync('sub/same', join(target, 'to-link'))
  const found = verify().map(({ index, state }) => `${paths[index]} ${state}`)
  t.strictSame(found, [
    'bytes changed',
    'size changed',
    'gone missing',
    'dir other_type',
    'mode mode',
    'other-link changed',
    'to-file other_type',
    'to-link other_type'
  ])
})

t.test('a directory that became a link is not followed', async t => {
  const target = targetOf(t, { 'sub/a': 'x', 'file/b': 'x' })
  const entries = entriesOf(target, ['file/b', 'sub/a'])
  renameSync(join(target, 'sub'), join(target, 'elsewhere'))
  symlinkSync('elsewhere', join(target, 'sub'))
  rmSync(join(target, 'file'), { recursive: true })
  writeFileSync(join(target, 'file'), 'x')
  t.strictSame(verifyTarget({ target, rules, entries }, { disk }), [
    { index: 0, state: 'missing' },
    { index: 1, state: 'missing' }
  ])
})

t.test('in a target that does not exist, everything is missing', async t => {
  const target = targetOf(t, { a: 'x' })
  const entries = entriesOf(target, ['a'])
  rmSync(target, { recursive: true })
  t.strictSame(verifyTarget({ target, rules, entries }, { disk }), [{ index: 0, state: 'missing' }])
})

t.test('what cannot be read is not the same', async t => {
  const target = targetOf(t, { a: 'x', b: 'x' })
  const entries = entriesOf(target, ['a', 'b'])
  const openSync = ((path: string, ...rest: [never]) => {
    if (path.endsWith('/a')) throw Object.assign(new Error('permission denied'), { code: 'EACCES' })
    return disk.openSync(path, ...rest)
  }) as Disk['openSync']
  t.strictSame(verifyTarget({ target, rules, entries }, { disk: { ...disk, openSync } }), [
    { index: 0, state: 'changed' }
  ])
  const failing = (() => {
    throw Object.assign(new Error('input/output error'), { code: 'EIO' })
  }) as Disk['openSync']
  t.throws(() => verifyTarget({ target, rules, entries }, { disk: { ...disk, openSync: failing } }), { code: 'EIO' })
})

t.test('refuses a target that cannot be used, and stops when it is told to', async t => {
  const target = targetOf(t, { a: 'x', b: 'x' })
  const entries = entriesOf(target, ['a', 'b'])
  t.throws(() => verifyTarget({ target: `${target}/a`, rules, entries }, { disk }), {
    code: 'target_unusable',
    message: /^Cannot verify the target: .*is not a directory$/
  })
  t.throws(() => verifyTarget({ target, rules: { home: target }, entries }, { disk }), { code: 'target_unusable' })
  const denied = (() => {
    throw Object.assign(new Error('permission denied'), { code: 'EACCES' })
  }) as Disk['openSync']
  t.throws(() => verifyTarget({ target, rules, entries }, { disk: { ...disk, openSync: denied } }), {
    code: 'target_unusable'
  })
  let calls = 0
  const check = (): void => {
    if (++calls === 2) throw new Error('stop')
  }
  t.throws(() => verifyTarget({ target, rules, entries }, { disk, check }), { message: 'stop' })
})
