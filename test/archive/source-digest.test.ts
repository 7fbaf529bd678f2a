import t from 'tap'
import { createHash } from 'node:crypto'
import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { digestBytes, digestSources } from '../../lib/archive/source-digest.js'
import type { ZipSource } from '../../lib/archive/source.js'

const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')

function file(directory: string, path: string, contents: Buffer): ZipSource {
  const source = join(directory, path)
  writeFileSync(source, contents)
  const { size, mode, mtimeMs } = statSync(source)
  return { path, kind: 'file', source, bytes: size, mode, mtimeMs }
}

t.test('digests files of every size, bytes in memory, and the text of links', async t => {
  const directory = t.testdir()
  const contents = [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 700_000].map(size => Buffer.alloc(size, 'abc'))
  const sources: ZipSource[] = contents.map((bytes, at) => file(directory, `f${at}`, bytes))
  sources.push({ path: 'link', kind: 'symlink', source: 'f0/ü', bytes: 0, mode: 0o777, mtimeMs: 0 })
  sources.push({ path: 'memory', kind: 'file', source: Buffer.from('xyz'), bytes: 3, mode: 0o644, mtimeMs: 0 })
  const digests = Buffer.from(digestSources(sources))
  const found = sources.map((_, at) => digests.subarray(at * digestBytes, (at + 1) * digestBytes).toString('hex'))
  t.strictSame(found, [...contents, 'f0/ü', 'xyz'].map(sha256))
})

t.test('refuses files that changed since they were found', async t => {
  const directory = t.testdir()
  for (const size of [3, 300_000]) {
    for (const after of [size - 1, size + 1, size * 2]) {
      const source = file(directory, 'a', Buffer.alloc(size))
      writeFileSync(source.source as string, Buffer.alloc(after))
      t.throws(() => digestSources([source]), { code: 'file_changed', field: 'a' }, `${size} to ${after} bytes`)
    }
  }
  const gone = file(directory, 'b', Buffer.alloc(3))
  rmSync(gone.source as string)
  t.throws(() => digestSources([gone]), { code: 'file_vanished', field: 'b' })
})
