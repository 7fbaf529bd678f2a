import t from 'tap'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createDigester } from '../../lib/install/digest.js'
import { disk } from '../../lib/install/disk.js'
import { findEntry, isEdited } from '../../lib/install/found-entry.js'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const finder = { disk, digester: createDigester(disk) }

t.test('finds files and links, and nothing else', async t => {
  const directory = t.testdir({ file: 'x', sub: {} })
  symlinkSync('file', join(directory, 'link'))
  execFileSync('mkfifo', [join(directory, 'pipe')])
  const find = (name: string) => findEntry(finder, join(directory, name), null)
  t.match(find('file'), { kind: 'file', size: 1, sha256: sha256('x') })
  t.match(find('link'), { kind: 'symlink', size: 4, sha256: sha256('file') })
  for (const name of ['sub', 'pipe', 'nothing']) t.equal(find(name), null, name)
})

t.test('trusts the owned tree if size, time and inode are the same', async t => {
  const place = join(t.testdir({ file: 'x' }), 'file')
  const { mode, size, mtimeMs, ino } = statSync(place)
  const owned = { mode, size, mtimeMs, ino, sha256: sha256('known') }
  const found = (patch: Partial<typeof owned>) => findEntry(finder, place, { ...owned, ...patch })?.sha256
  t.equal(found({}), sha256('known'), 'the file is not read')
  for (const patch of [{ size: 2 }, { mtimeMs: mtimeMs + 1 }, { ino: ino + 1 }, { mode: 0o120777 }]) {
    t.equal(found(patch), sha256('x'), JSON.stringify(patch))
  }
  const unknown = { ...owned, mtimeMs: null, ino: null }
  t.equal(findEntry(finder, place, unknown)?.sha256, sha256('x'), 'unknown times prove nothing')
})

t.test('an entry is edited if its contents or its type differ', async t => {
  const place = join(t.testdir({ file: 'x' }), 'file')
  const found = findEntry(finder, place, null)
  const owned = { mode: 0o100600, size: 1, mtimeMs: null, ino: null, sha256: sha256('x') }
  t.notOk(isEdited(found, owned), 'permissions do not matter')
  t.ok(isEdited(found, { ...owned, sha256: sha256('y') }))
  t.ok(isEdited(found, { ...owned, mode: 0o120777 }))
  t.ok(isEdited(null, owned))
})
