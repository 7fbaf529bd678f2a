import t from 'tap'
import { gzipSync } from 'node:zlib'
import { compareWithBase, writeDelta } from '../../../lib/base/shared/tree-delta.js'
import { applyDelta } from '../../../lib/core/archive/tree-wire.js'
import type { SourceTree, TimedEntry } from '../../../lib/core/archive/tree.js'
import { compareTreePaths } from '../../../lib/base/shared/tree-text.js'
import { sha256 } from '../../../lib/base/digests.js'
import { createTreeDigest } from '../../../lib/model/manifest.js'
import { createRandom } from '../../support/random.js'

const entry = (path: string, text: string, mode = 0o100644, mtimeMs = 1000): TimedEntry => ({
  path,
  mode,
  size: text.length,
  sha256: sha256(Buffer.from(text)).toString('hex'),
  mtimeMs
})

function treeOf(entries: TimedEntry[]): SourceTree {
  const sorted = [...entries].sort((a, b) => compareTreePaths(a.path, b.path))
  const digest = createTreeDigest()
  for (const each of sorted) digest.add(each)
  return { entries: sorted, treeSha256: digest.end(), bytes: 0 }
}

const baseOf = ({ entries }: SourceTree, digits = 64) =>
  new Map(entries.map(each => [each.path, { ...each, sha256: each.sha256.slice(0, digits) }]))

t.test('names what is new, other, gone, and what is nowhere in the base', async t => {
  const base = treeOf([entry('a', 'one'), entry('b', 'two'), entry('run', 'x'), entry('gone', 'away')])
  const tree = treeOf([entry('a', 'one'), entry('b', 'new'), entry('run', 'x', 0o100755), entry('moved', 'away')])
  for (const digits of [16, 64]) {
    const delta = compareWithBase(baseOf(base, digits), tree)
    t.strictSame(
      delta.changed.map(({ path }) => path),
      ['b', 'moved', 'run']
    )
    t.strictSame(delta.gone, ['gone'])
    t.strictSame(
      delta.missing.map(({ path }) => path),
      ['b'],
      'what was moved need not be sent'
    )
  }
})

t.test('other times alone are no change: contents decide', async t => {
  const base = treeOf([entry('a', 'one', 0o100644, 1000)])
  const tree = treeOf([entry('a', 'one', 0o100644, 9000)])
  const delta = compareWithBase(baseOf(base), tree)
  t.strictSame(delta, { changed: [], gone: [], missing: [] })
  const { entries } = applyDelta(Buffer.from(writeDelta(delta, tree.treeSha256)), {
    base: base.entries,
    treeSha256: tree.treeSha256
  })
  t.equal(entries[0]?.mtimeMs, 1000)
})

t.test('a delta applied to its base is the tree, for random trees', async t => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = createRandom(seed)
    const names = ['a', 'a/b', 'ab', 'z', '\u{10000}', '\uffee', 'ü', 'Z'].map(name => `${name}${random.below(3)}`)
    const some = () =>
      treeOf(
        [...new Set(random.some(8, () => random.oneOf(names)))].map(path =>
          entry(path, random.oneOf(['1', '22', '333']), random.oneOf([0o100644, 0o100755, 0o120777]))
        )
      )
    const [base, tree] = [some(), some()]
    const text = writeDelta(compareWithBase(baseOf(base, random.oneOf([16, 64])), tree), tree.treeSha256)
    const body = random.oneOf([Buffer.from(text), gzipSync(text)])
    const { entries } = applyDelta(body, { base: base.entries, treeSha256: tree.treeSha256 })
    t.strictSame(entries, tree.entries, `seed ${seed}`)
  }
})

t.test('refuses what is no delta, or one of another base', async t => {
  const base = treeOf([entry('a', 'one'), entry('b', 'two')])
  const tree = treeOf([entry('a', 'new'), entry('c', 'three')])
  const text = writeDelta(compareWithBase(baseOf(base), tree), tree.treeSha256)
  const lines = text.split('\n')
  const apply = (body: string, wanted = tree.treeSha256, of = base) => {
    try {
      return applyDelta(Buffer.from(body), { base: of.entries, treeSha256: wanted }).entries.length
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  t.equal(apply(text), 2)
  t.equal(apply(text, 'f'.repeat(64)), 'base_differs', 'another tree was stated')
  t.equal(apply(text, tree.treeSha256, tree), 'base_differs')
  t.equal(apply(text, tree.treeSha256, treeOf([])), 'base_differs', 'what is gone was never there')
  const broken = {
    'no head': lines.slice(1).join('\n'),
    'no end': `${lines.slice(0, -2).join('\n')}\n`,
    'wrong count': text.replace(/end \d+/, 'end 9'),
    twice: [lines[0], lines[1], ...lines.slice(1)].join('\n'),
    'other order': [lines[0], lines[3], lines[2], lines[1], ...lines.slice(4)].join('\n'),
    'more after the end': `${text}- x\n`,
    'short digest': text.replace(/[0-9a-f]{48} /, ' '),
    'path outside': text.replace(' c\n', ' ../c\n'),
    empty: '\n'
  }
  for (const [name, body] of Object.entries(broken)) t.equal(apply(body), 'invalid_tree', name)
})
