import t from 'tap'
import { lstatSync, readFileSync, readdirSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../lib/install/disk.js'
import { canHoldDirectories, holdChild, namedByPath, refuseRenamable, removeContents } from '../../lib/install/held.js'
import { holdTarget } from '../../lib/install/reach.js'

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
