import t from 'tap'
import { compareWithBase, isMostlyNew, writeDelta } from '../../../lib/base/shared/tree-delta.js'

/* test/core/archive/tree-delta.test.ts applies what is written here. */

const entry = (path: string, sha256: string, size = 10) => ({ path, mode: 0o100644, size, sha256, mtimeMs: 0 })
const full = (digit: string): string => digit.repeat(64)

t.test('finds what is new, gone, and known under another name; digests of a base may be short', t => {
  const base = new Map([entry('a', '1'.repeat(16)), entry('b', '2'.repeat(16))].map(each => [each.path, each]))
  const tree = [entry('b', full('3')), entry('c', full('1'))]
  const delta = compareWithBase(base, { entries: tree })
  t.strictSame(delta, { changed: tree, gone: ['a'], missing: [tree[0]] })
  t.equal(
    writeDelta(delta, full('f')),
    `svc-delta 1\n- a\n100644 10 ${full('3')} 0 b\n100644 10 ${full('1')} 0 c\nend 3 ${full('f')}\n`
  )
  t.end()
})

t.test('most of it is more than 70 %', t => {
  const delta = { changed: [], gone: [], missing: [entry('a', full('1'), 70)] }
  t.strictSame([isMostlyNew(delta, 100), isMostlyNew(delta, 99)], [false, true])
  t.end()
})
