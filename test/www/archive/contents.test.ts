import t from 'tap'
import { contentsOf, isOtherArchive, limitsOf, type ContentEntry } from '../../../www/archive/contents.js'

const entriesOf = (paths: string[]): ContentEntry[] =>
  paths.map((path, n) => ({ path, bytes: path.endsWith('/') ? null : n + 1 }))

t.test('returns the top folder if it is the only entry', async t => {
  const cases: Array<[paths: string[], topFolder: string | null]> = [
    [[], null],
    [['a.txt'], null],
    [['dist/'], null],
    [['dist/a.txt'], 'dist'],
    [['./dist/a.txt', './dist/b/c.txt'], 'dist'],
    [['./', './dist/', './dist/a.txt'], 'dist'],
    [['dist/a.txt', 'b.txt'], null],
    [['dist/a.txt', 'other/b.txt'], null]
  ]
  for (const [paths, topFolder] of cases)
    t.equal(contentsOf(entriesOf(paths)).topFolder, topFolder, paths.join(' ') || 'nothing')
})

t.test('returns the sizes and the largest files', async t => {
  const contents = contentsOf(entriesOf(['a', 'b/', 'c', 'd', 'e', 'f', 'g', 'h']))
  t.match(contents, { files: 7, bytes: 1 + 3 + 4 + 5 + 6 + 7 + 8 })
  t.same(
    contents.largest.map(({ path }) => path),
    ['h', 'g', 'f', 'e', 'd']
  )
})

t.test('lists once what svc push would leave out', async t => {
  const { unusual } = contentsOf(
    entriesOf(['node_modules/a/b.js', 'node_modules/c.js', 'src/.env', 'src/a.ts', 'x/debug.log', '.git/'])
  )
  t.same(unusual, ['node_modules', 'src/.env', 'x/debug.log', '.git'])
})

t.test('recognizes other archives by name, and reads the limits of the settings', async t => {
  for (const name of ['a.tar', 'a.tgz', 'a.tar.gz', 'A.TAR.ZST', 'a.7z', 'a.rar', 'a.gz'])
    t.ok(isOtherArchive(name), name)
  for (const name of ['a.zip', 'a.html', 'tar', 'a.gzip.txt']) t.notOk(isOtherArchive(name), name)
  t.same(limitsOf({ max_upload_size: '2', max_extracted_size: '4' }), {
    uploadBytes: 2 * 1024 ** 2,
    extractedBytes: 4 * 1024 ** 2
  })
  t.same(limitsOf({ max_upload_size: '' }), { uploadBytes: null, extractedBytes: null })
})
