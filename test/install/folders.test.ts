import t from 'tap'
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../lib/install/disk.js'
import { holdFolders } from '../../lib/install/folders.js'
import { canHoldDirectories } from '../../lib/install/held.js'
import { holdTarget } from '../../lib/install/reach.js'

const openDescriptors = (): number => readdirSync('/proc/self/fd').length

t.test('holds each folder of the target', async t => {
  const directory = realpathSync(
    t.testdir({ target: { a: { b: { file: 'x' } }, file: 'y' }, outside: { b: { file: 'outside' } } })
  )
  const root = holdTarget(disk, join(directory, 'target'))
  t.teardown(root.close)
  const folders = holdFolders(disk, root)
  t.teardown(folders.close)
  t.equal(readFileSync(folders.place('a/b/file'), 'utf8'), 'x')
  t.equal(readFileSync(folders.place('file'), 'utf8'), 'y')
  t.equal(folders.at(''), root.path)
  t.throws(() => folders.at('a/missing'), { code: 'target_changed' })
  t.throws(() => folders.at('file'), { code: 'target_changed' })
  symlinkSync('../outside', join(directory, 'target/link'))
  t.throws(() => folders.at('link'), { code: 'written_through_link' })
  t.throws(() => folders.place('link/b/file'), { code: 'written_through_link' }, 'nor through it')
})

t.test(
  'still holds a folder that was replaced with a link',
  { skip: !canHoldDirectories && 'directories are held on Linux' },
  async t => {
    const directory = realpathSync(t.testdir({ target: { a: { b: {} } }, outside: { b: {} } }))
    const root = holdTarget(disk, join(directory, 'target'))
    t.teardown(root.close)
    const folders = holdFolders(disk, root)
    t.teardown(folders.close)
    folders.at('a')
    renameSync(join(directory, 'target/a'), join(directory, 'target/was-a'))
    symlinkSync('../outside', join(directory, 'target/a'))
    writeFileSync(folders.place('a/b/file'), 'x')
    t.strictSame(readdirSync(join(directory, 'outside/b')), [])
    t.strictSame(readdirSync(join(directory, 'target/was-a/b')), ['file'])
  }
)

t.test(
  'keeps a few hundred folders open, and none after close',
  { skip: process.platform !== 'linux' && 'descriptors are counted in /proc' },
  async t => {
    const directory = realpathSync(t.testdir({ target: {} }))
    const root = holdTarget(disk, join(directory, 'target'))
    t.teardown(root.close)
    const before = openDescriptors()
    const folders = holdFolders(disk, root)
    for (let i = 0; i < 500; i++) mkdirSync(join(directory, `target/d${i}/e`), { recursive: true })
    for (let i = 0; i < 500; i++) writeFileSync(folders.place(`d${i}/e/file`), `${i}`)
    for (let i = 0; i < 500; i += 7) t.equal(readFileSync(folders.place(`d${i}/e/file`), 'utf8'), `${i}`)
    const open = openDescriptors() - before
    t.ok(open <= 201, `${open} are open`)
    folders.close()
    t.equal(openDescriptors(), before)
  }
)

t.test(
  'does not block on a pipe in the place of a folder',
  { skip: process.platform === 'win32' && 'there are no pipes in directories' },
  async t => {
    const directory = realpathSync(t.testdir({ target: { a: {} } }))
    const root = holdTarget(disk, join(directory, 'target'))
    t.teardown(root.close)
    const folders = holdFolders(disk, root)
    t.teardown(folders.close)
    rmdirSync(join(directory, 'target/a'))
    execFileSync('mkfifo', [join(directory, 'target/a')])
    t.throws(() => folders.at('a'), { code: 'target_changed' })
  }
)
