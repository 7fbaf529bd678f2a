import t from 'tap'
import {
  compareTreePaths,
  defaultFileMode,
  isBroughtAlong,
  linkMode,
  packedMode,
  treeLine,
  treeOrder
} from '../../../lib/base/shared/tree-text.js'

t.test('A line contains mode, size, checksum and path', async t => {
  const sha256 = 'ab'.repeat(32)
  t.equal(
    treeLine({ mode: defaultFileMode, size: 5120, sha256, path: 'assets/a b.js' }),
    `100644 5120 ${sha256} assets/a b.js\n`
  )
  t.equal(treeLine({ mode: linkMode, size: 3, sha256, path: 'l' }), `120777 3 ${sha256} l\n`)
})

t.test('Paths are ordered by their UTF-8 bytes', async t => {
  const paths = [
    'a',
    'a/b',
    'a.b',
    'a-b',
    'A',
    'é',
    'e\u0301',
    '你',
    '\uffee',
    '\ue000',
    '👩',
    '👩\u200d💻',
    '𐀀',
    'zz',
    ''
  ]
  for (const a of paths)
    for (const b of paths) {
      t.equal(Math.sign(compareTreePaths(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)), `${a} and ${b}`)
    }
  const sorted = [...paths].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  t.same([...paths].sort(treeOrder(paths)), sorted)
  const plain = paths.filter(path => !/[\ud800-\uffff]/.test(path))
  t.same(
    [...plain].sort(treeOrder(plain)),
    sorted.filter(path => plain.includes(path))
  )
})

t.test('spares what a complete build output brings along, and nothing beside it', t => {
  const table: Array<[name: string, directory: string, isSpared: boolean]> = [
    ['node_modules', '/a/.next/standalone', true],
    ['.next', '.next/standalone', true],
    ['node_modules', '.next/standalone/apps/web', true],
    ['node_modules', '.output/server', true],
    ['.git', '.next/standalone', false],
    ['node_modules', '.next', false],
    ['node_modules', '.next/standalone-copy', false],
    ['node_modules', 'my.output', false]
  ]
  for (const [name, directory, isSpared] of table)
    t.equal(isBroughtAlong(name, directory), isSpared, `${directory}/${name}`)
  t.end()
})

t.test('What is packed has its permissions, or the usual ones', async t => {
  for (const [kind, type, usual] of [
    ['file', 0o100000, 0o644],
    ['directory', 0o040000, 0o755]
  ] as const) {
    for (let mode = 1; mode < 512; mode++) t.equal(packedMode({ kind, mode: 0o106000 | mode }), type | mode)
    for (const mode of [null, 0, 0o100000, 0o106000, 0o1000]) t.equal(packedMode({ kind, mode }), type | usual)
  }
  t.equal(packedMode({ kind: 'symlink', mode: 0 }), linkMode)
})
