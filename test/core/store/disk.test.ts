import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { realDisk } from '../../../lib/core/store/disk.js'

t.test('creates a file for its owner only, replacing an existing one', async t => {
  const path = join(t.testdir({ file: 'old and longer' }), 'file')
  chmodSync(path, 0o644)
  const file = await realDisk.create(path)
  await file.write(Buffer.from('new'), 0)
  await file.sync()
  await file.close()
  t.equal(readFileSync(path, 'utf8'), 'new')
  if (process.platform !== 'win32') t.equal(statSync(path).mode & 0o777, 0o600)
})

t.test('writes, reads and truncates a file by position, whatever the size', async t => {
  const path = join(t.testdir(), 'file')
  const file = await realDisk.create(path)
  t.teardown(() => file.close())
  const large = Buffer.alloc(300_000, 'abcdefg')
  await file.write(large, 10)
  await file.write(Buffer.from('0123456789'), 0)
  t.ok(Buffer.concat([Buffer.from('0123456789'), large]).equals(readFileSync(path)))
  t.equal(Buffer.from(await file.read(8, 4)).toString(), '89ab')
  t.equal((await file.read(300_000, 100)).length, 10, 'only existing bytes are returned')
  await file.truncate(5)
  t.equal(readFileSync(path, 'utf8'), '01234')
})

t.test('reads a file in pieces, the last one shorter', async t => {
  const path = join(t.testdir({ file: '0123456789', empty: '' }), 'file')
  const read = (pieceBytes: number) =>
    realDisk.readPieces(path, pieceBytes)?.map(piece => Buffer.from(piece).toString())
  t.same(read(4), ['0123', '4567', '89'])
  t.same(read(5), ['01234', '56789'])
  t.same(read(100), ['0123456789'])
  t.same(realDisk.readPieces(join(path, '../empty'), 4), [])
})

t.test('reads the same contents by threads for small, large and empty files', async t => {
  const large = Buffer.alloc(9 * 1024 * 1024 + 5)
  for (let at = 0; at < large.length; at += 4096) large.writeUInt32LE(at, at)
  const directory = t.testdir({ small: '0123456789', large, empty: '', folder: {} })
  for (const name of ['small', 'large', 'empty', 'none']) {
    const path = join(directory, name)
    for (const pieceBytes of [1_000_000, 4 * 1024 * 1024]) {
      const [loaded, read] = [await realDisk.loadPieces(path, pieceBytes), realDisk.readPieces(path, pieceBytes)]
      t.equal(loaded?.length, read?.length, name)
      t.ok(
        loaded === null || loaded.every((piece, index) => Buffer.compare(piece, read?.[index] as Uint8Array) === 0),
        name
      )
      t.equal(new Set(loaded?.map(piece => piece.buffer)).size, loaded?.length ?? 0, 'each piece has its own memory')
    }
  }
  await t.rejects(realDisk.loadPieces(join(directory, 'folder'), 4), { code: 'EISDIR' })
})

t.test('returns null for a missing file and throws for an unreadable one', async t => {
  const directory = t.testdir({ folder: {} })
  t.equal(realDisk.read(join(directory, 'none')), null)
  t.equal(realDisk.readPieces(join(directory, 'none'), 4), null)
  t.equal(realDisk.size(join(directory, 'none')), null)
  t.throws(() => realDisk.read(join(directory, 'folder')), { code: 'EISDIR' })
  t.throws(() => realDisk.readPieces(join(directory, 'folder'), 4), { code: 'EISDIR' })
  await t.rejects(realDisk.open(join(directory, 'none')), { code: 'ENOENT' })
})

t.test('ignores a missing file when removing, and replaces a file when renaming', async t => {
  const directory = t.testdir({ a: 'a', b: 'b' })
  await realDisk.remove(join(directory, 'none'))
  await realDisk.rename(join(directory, 'a'), join(directory, 'b'))
  await realDisk.syncDirectory(directory)
  t.same(readdirSync(directory), ['b'])
  t.equal(readFileSync(join(directory, 'b'), 'utf8'), 'a')
  writeFileSync(join(directory, 'a'), '')
  await realDisk.remove(join(directory, 'a'))
  t.same(readdirSync(directory), ['b'])
})
