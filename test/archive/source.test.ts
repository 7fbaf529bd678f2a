import t from 'tap'
import { checkSourceName, isWorthDeflating, unixMode, type ZipSource } from '../../lib/archive/source.js'

function file(path: string, more: Partial<ZipSource> = {}): ZipSource {
  return { path, kind: 'file', source: `/root/${path}`, bytes: 1000, mode: 0o4755, mtimeMs: 0, ...more }
}

t.test('the mode of an entry contains its type and permission bits only', async t => {
  t.equal(unixMode(file('a.js')), 0o100755)
  t.equal(unixMode(file('d', { kind: 'directory', mode: 0o41777 })), 0o040777)
  t.equal(unixMode(file('l', { kind: 'symlink', mode: 0 })), 0o120777)
})

t.test('deflates only sources that may get smaller', async t => {
  const table: Array<[source: ZipSource, expected: boolean]> = [
    [file('a.js'), true],
    [file('png'), true],
    [file('b.PNG'), false],
    [file('d/c.tar.gz'), false],
    [file('short.js', { bytes: 16 }), false],
    [file('l.js', { kind: 'symlink' }), false]
  ]
  for (const [source, expected] of table) t.equal(isWorthDeflating(source), expected, source.path)
})

t.test('refuses ambiguous names', async t => {
  for (const path of ['a\\b', '/a', 'a/', '../a', 'a/../b', '', 'C:x', 'a\0b', 'a\ufffd', 'x'.repeat(70_000)]) {
    t.throws(() => checkSourceName(file(path)), { code: 'name_not_packable' }, path.slice(0, 10))
  }
  t.doesNotThrow(() => checkSourceName(file('ünï ☃/..a/b..')))
})
