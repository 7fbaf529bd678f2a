import t from 'tap'
import { createHash } from 'node:crypto'
import { createTreeDigest, pathOfLine, targetFileFault } from '../../lib/model/manifest.js'

t.test('every line is about a path', t => {
  const before = { size: 0, mode: 0o100644, sha256: '' }
  t.equal(pathOfLine({ path: 'a', size: 0, mode: 0o100644, sha256: '', before: null }), 'a')
  t.equal(pathOfLine({ removed: 'b', before }), 'b')
  t.equal(pathOfLine({ made: 'c' }), 'c')
  t.end()
})

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

t.test('The digest of a tree is the SHA-256 of its canonical text', async t => {
  const digest = createTreeDigest()
  digest.add({ mode: 0o100755, size: 2, sha256: sha256('hi'), path: 'bin/run' })
  digest.add({ mode: 0o120777, size: 3, sha256: sha256('run'), path: 'bin/start' })
  t.equal(digest.end(), sha256(`svc-tree 1\n100755 2 ${sha256('hi')} bin/run\n120777 3 ${sha256('run')} bin/start\n`))
  t.equal(createTreeDigest().end(), sha256('svc-tree 1\n'), 'an empty tree has a digest, too')
})

t.test('a path of a file in the target is relative, plain, and not reserved for svc', async t => {
  for (const path of ['.maintenance', 'public/down.html', 'a b/c', '..a', '.svc', 'Wartung.html', 'ü']) {
    t.equal(targetFileFault(path), null, path)
  }
  const wrong = [
    '',
    'a'.repeat(1025),
    'a\nb',
    'a\0',
    '\u202ea',
    'a\\b',
    '/a',
    'C:a',
    '..',
    'a/../b',
    './a',
    'a//b',
    'a/',
    '.svc-staging-dep_a',
    'a/.SVC-x'
  ]
  for (const path of wrong) t.type(targetFileFault(path), 'string', JSON.stringify(path))
})
