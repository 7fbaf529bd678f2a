import t from 'tap'
import { pathOfLine } from '../../lib/model/manifest.js'

t.test('every line is about a path', t => {
  const before = { size: 0, mode: 0o100644, sha256: '' }
  t.equal(pathOfLine({ path: 'a', size: 0, mode: 0o100644, sha256: '', before: null }), 'a')
  t.equal(pathOfLine({ removed: 'b', before }), 'b')
  t.equal(pathOfLine({ made: 'c' }), 'c')
  t.end()
})
