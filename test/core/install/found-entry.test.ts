import t from 'tap'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createDigester, type FileDigest, findEntry, isEdited } from '../../../lib/core/install/found-entry.js'
import { disk } from '../../../lib/core/install/disk.js'
import { sha256 } from '../../../lib/base/digests.js'
import type { Digest } from '../../../lib/core/install/plan.js'

const sha256Of = (text: string): string => createHash('sha256').update(text).digest('hex')
const finder = { disk, digester: createDigester(disk) }

t.test('finds files and links, and nothing else', async t => {
  const directory = t.testdir({ file: 'x', sub: {} })
  symlinkSync('file', join(directory, 'link'))
  execFileSync('mkfifo', [join(directory, 'pipe')])
  const find = (name: string) => findEntry(finder, join(directory, name), null)
  t.match(find('file'), { kind: 'file', size: 1, sha256: sha256Of('x') })
  t.match(find('link'), { kind: 'symlink', size: 4, sha256: sha256Of('file') })
  for (const name of ['sub', 'pipe', 'nothing']) t.equal(find(name), null, name)
})

t.test('trusts the owned tree if size, time and inode are the same', async t => {
  const place = join(t.testdir({ file: 'x' }), 'file')
  const { mode, size, mtimeMs, ino } = statSync(place)
  const owned = { mode, size, mtimeMs, ino, sha256: sha256Of('known') }
  const found = (patch: Partial<typeof owned>) => findEntry(finder, place, { ...owned, ...patch })?.sha256
  t.equal(found({}), sha256Of('known'), 'the file is not read')
  for (const patch of [{ size: 2 }, { mtimeMs: mtimeMs + 1 }, { ino: ino + 1 }, { mode: 0o120777 }]) {
    t.equal(found(patch), sha256Of('x'), JSON.stringify(patch))
  }
  const unknown = { ...owned, mtimeMs: null, ino: null }
  t.equal(findEntry(finder, place, unknown)?.sha256, sha256Of('x'), 'unknown times prove nothing')
})

t.test('an entry is edited if its contents or its type differ', async t => {
  const place = join(t.testdir({ file: 'x' }), 'file')
  const found = findEntry(finder, place, null)
  const owned = { mode: 0o100600, size: 1, mtimeMs: null, ino: null, sha256: sha256Of('x') }
  t.notOk(isEdited(found, owned), 'permissions do not matter')
  t.ok(isEdited(found, { ...owned, sha256: sha256Of('y') }))
  t.ok(isEdited(found, { ...owned, mode: 0o120777 }))
  t.ok(isEdited(null, owned))
})

t.test('digests files of every size', async t => {
  const directory = t.testdir()
  const digester = createDigester(disk)
  for (const size of [0, 1, 256 * 1024 - 1, 256 * 1024, 600_000]) {
    const contents = Buffer.alloc(size, 'abc')
    const path = join(directory, 'file')
    writeFileSync(path, contents)
    const expected = createHash('sha256').update(contents).digest('hex')
    const { size: seen, sha256: digest } = digester.file(path) as FileDigest
    t.strictSame([seen, Buffer.from(digest).toString('hex')], [size, expected])
    t.equal(sha256(contents).toString('hex'), expected)
  }
})

t.test('digests the text of a link', async t => {
  const path = join(t.testdir(), 'link')
  symlinkSync('nowhere/ü', path)
  const { size, sha256: digest, mode } = createDigester(disk).link(path) as Digest
  t.equal(size, 10)
  t.strictSame(Buffer.from(digest), sha256(Buffer.from('nowhere/ü')))
  t.equal(mode & 0o170000, 0o120000)
})

t.test('does not read a file of another size than expected, and lets go within a large one', async t => {
  const path = join(t.testdir(), 'sparse')
  writeFileSync(path, '')
  truncateSync(path, 2 ** 40)
  const other = createDigester(disk).file(path, { size: 10 }) as FileDigest
  t.strictSame([other.size, other.sha256.length], [2 ** 40, 0])
  let pieces = 0
  const check = (): void => {
    if (++pieces > 3) throw new Error('the client has left')
  }
  t.throws(() => createDigester(disk, check).file(path), /has left/)
  t.equal(pieces, 4)
})
