import t from 'tap'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { execFileSync } from 'node:child_process'
import { disk } from '../../../lib/core/install/disk.js'
import {
  canHoldDirectories,
  holdChild,
  holdFolders,
  holdTarget,
  namedByPath,
  type ReachOptions,
  refuseRenamable,
  removeContents
} from '../../../lib/core/install/held.js'

const skip = !canHoldDirectories && 'directories are held on Linux'

t.test('a held directory stays the same', { skip }, async t => {
  const directory = realpathSync(t.testdir({ target: { sub: {} }, outside: {} }))
  const root = holdTarget(disk, join(directory, 'target'))
  t.teardown(root.close)
  const sub = holdChild(disk, root, 'sub')
  renameSync(join(directory, 'target/sub'), join(directory, 'target/moved'))
  symlinkSync('../outside', join(directory, 'target/sub'))
  writeFileSync(`${sub.path}/file`, 'x')
  t.ok(lstatSync(join(directory, 'target/moved/file')).isFile(), 'not the place where its name leads now')
  t.throws(() => holdChild(disk, root, 'sub'), { code: 'ENOTDIR' })
  sub.close()
  const other = holdChild(disk, root, 'moved')
  sub.close()
  t.ok(lstatSync(`${other.path}/file`).isFile(), 'closing twice closes nothing else')
  other.close()
})

t.test('removes without following links, by path too', async t => {
  for (const byPath of canHoldDirectories ? [false, true] : [true]) {
    const directory = realpathSync(
      t.testdir({ target: { tree: { deep: { file: 'x' } }, keep: 'k' }, outside: { file: 'x' } })
    )
    symlinkSync('../../outside', join(directory, 'target/tree/link'))
    symlinkSync('../../../outside', join(directory, 'target/tree/deep/link'))
    const root = byPath ? namedByPath(join(directory, 'target')) : holdTarget(disk, join(directory, 'target'))
    removeContents(disk, root, 'keep')
    root.close()
    t.strictSame(readdirSync(join(directory, 'target')), ['keep'])
    t.equal(readFileSync(join(directory, 'outside/file'), 'utf8'), 'x')
  }
})

t.test('does not follow a directory that becomes a link during removal', { skip }, async t => {
  const directory = realpathSync(t.testdir({ target: { tree: { deep: { file: 'x' } } }, outside: { file: 'x' } }))
  const root = holdTarget(disk, join(directory, 'target'))
  t.teardown(root.close)
  const meddling = ((...args: Parameters<typeof disk.readdirSync>) => {
    const found = disk.readdirSync(...args) as unknown as Array<{ name: string }>
    if (found.some(({ name }) => name === 'deep')) {
      renameSync(join(directory, 'target/tree/deep'), join(directory, 'target/away'))
      symlinkSync('../../outside', join(directory, 'target/tree/deep'))
    }
    return found
  }) as unknown as typeof disk.readdirSync
  t.throws(() => removeContents({ ...disk, readdirSync: meddling }, root), { code: 'ENOTDIR' })
  t.equal(readFileSync(join(directory, 'outside/file'), 'utf8'), 'x')
})

t.test(
  'refuses a directory in which another user can rename, if directories cannot be held',
  { skip: process.geteuid === undefined && 'this system has no owners' },
  async t => {
    const own = process.geteuid?.() as number
    const stats = (uid: number, mode: number) =>
      ({ ...lstatSync('/'), uid, mode: 0o040000 | mode }) as Parameters<typeof refuseRenamable>[0]
    for (const fine of [stats(own, 0o755), stats(0, 0o755), stats(0, 0o1777), stats(own, 0o700)])
      refuseRenamable(fine, '/x')
    for (const bad of [stats(own + 1, 0o755), stats(own, 0o775), stats(own, 0o757), stats(0, 0o777)]) {
      t.throws(() => refuseRenamable(bad, '/x'), { code: 'target_not_guarded' })
    }
  }
)

/** Returns where a path leads. */
function reach(path: string, options?: ReachOptions): string {
  const held = holdTarget(disk, path, options)
  held.close()
  return held.real
}

const ways = canHoldDirectories ? [true, false] : [false]

t.test('follows links of the operator, and creates directories', async t => {
  for (const canHold of ways) {
    const directory = realpathSync(t.testdir({ real: { deep: {} }, file: 'x' }))
    symlinkSync('real', join(directory, 'link'))
    symlinkSync(join(directory, 'link/deep'), join(directory, 'absolute'))
    symlinkSync('../link/./deep/../deep', join(directory, 'real/up'))
    t.equal(reach(join(directory, 'link'), { canHold }), join(directory, 'real'))
    t.equal(reach(join(directory, 'absolute'), { canHold }), join(directory, 'real/deep'))
    t.equal(reach(join(directory, 'link/up'), { canHold }), join(directory, 'real/deep'))
    t.throws(() => reach(join(directory, 'link/new'), { canHold }), { code: 'ENOENT' })
    t.equal(reach(join(directory, 'link/new/er'), { canHold, make: true }), join(directory, 'real/new/er'))
    t.throws(() => reach(join(directory, 'file'), { canHold }), { code: 'target_is_a_file' })
    symlinkSync('circle', join(directory, 'circle'))
    t.throws(() => reach(join(directory, 'circle'), { canHold }), { code: 'ELOOP' })
  }
})

const isRoot = process.geteuid?.() === 0
const stranger = 65534

t.test(
  "follows a link of another user only to that user's directories",
  { skip: isRoot ? false : 'giving files to another user needs root' },
  async t => {
    const directory = mkdtempSync(join(realpathSync(tmpdir()), 'svc-test-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const theirs = join(directory, 'theirs')
    mkdirSync(join(theirs, 'site'), { recursive: true })
    mkdirSync(join(directory, 'ours/site'), { recursive: true })
    for (const path of [theirs, join(theirs, 'site')]) chownSync(path, stranger, stranger)
    const link = (text: string, name: string, owner = stranger): string => {
      symlinkSync(text, join(theirs, name))
      lchownSync(join(theirs, name), owner, owner)
      return join(theirs, name)
    }
    t.equal(reach(link('site', 'current')), join(theirs, 'site'))
    const outward = link('../ours/site', 'outward')
    t.throws(() => reach(outward), { code: 'target_through_link', message: /"outward"/ })
    t.throws(
      () => reach(join(link('../ours', 'above'), 'site')),
      { code: 'target_through_link' },
      'a link in the middle'
    )
    t.throws(() => reach(link('current/../../ours/site', 'around')), { code: 'target_through_link' })
    t.throws(
      () => reach(link('../ours/site', 'moved', 0)),
      { code: 'target_through_link' },
      'a link that the user may have moved there'
    )
    t.throws(() => reach(join(link('../ours', 'maker'), 'made'), { make: true }), { code: 'target_through_link' })
    t.throws(() => reach(link('../ours/dangling', 'dangling'), { make: true }), { code: 'target_through_link' })
    t.notOk(
      existsSync(join(directory, 'ours/made')) || existsSync(join(directory, 'ours/dangling')),
      'nothing was created'
    )
    t.equal(reach(join(theirs, 'new/site'), { make: true }), join(theirs, 'new/site'), 'works as usual without links')
    t.equal(lstatSync(join(theirs, 'new')).uid, 0)
  }
)

t.test(
  "by path, no directory above a target may be another user's",
  { skip: isRoot ? false : 'giving files to another user needs root' },
  async t => {
    const directory = mkdtempSync(join(realpathSync(tmpdir()), 'svc-test-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const target = join(directory, 'a/b')
    mkdirSync(target, { recursive: true })
    t.equal(reach(target, { canHold: false }), target)
    for (const change of [() => chownSync(target, stranger, stranger), () => chmodSync(join(directory, 'a'), 0o777)]) {
      chownSync(target, 0, 0)
      change()
      t.throws(() => reach(target, { canHold: false }), { code: 'target_not_guarded' })
    }
  }
)

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
