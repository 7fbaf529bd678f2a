import t from 'tap'
import { createHash } from 'node:crypto'
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256 } from '../../lib/base/digests.js'
import { createDigester, type FileDigest } from '../../lib/install/digest.js'
import { disk } from '../../lib/install/disk.js'
import type { Digest } from '../../lib/install/record.js'

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
