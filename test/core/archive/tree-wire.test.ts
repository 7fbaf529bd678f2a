import t from 'tap'
import { gzipSync } from 'node:zlib'
import { checkNames, type NamedEntry } from '../../../lib/core/archive/names.js'
import {
  createSortedNames,
  type Digits,
  maxTreeEntries,
  readTree,
  writeTree
} from '../../../lib/core/archive/tree-wire.js'
import type { TimedEntry } from '../../../lib/core/archive/tree.js'
import { Refusal } from '../../../lib/base/errors.js'
import { createContentsDigest, createTreeDigest } from '../../../lib/model/manifest.js'
import { compareTreePaths } from '../../../lib/base/shared/tree-text.js'

const digits = 'ab'.repeat(32)
const entry = (path: string, more: Partial<TimedEntry> = {}): TimedEntry => ({
  path,
  mode: 0o100644,
  size: 5,
  sha256: digits,
  mtimeMs: 1_000,
  ...more
})

function sha256Of(entries: TimedEntry[]): string {
  const digest = createTreeDigest()
  for (const each of entries) digest.add(each)
  return digest.end()
}

const bodyOf = (entries: TimedEntry[], digits: Digits = 64): string =>
  [...writeTree(entries, sha256Of(entries), digits)].join('')

function contentsOf(entries: TimedEntry[]): string {
  const digest = createContentsDigest()
  for (const each of entries) digest.add(each)
  return digest.end()
}

function read(body: string | Buffer) {
  const { entries, ...rest } = readTree(Buffer.from(body as string))
  return { ...rest, entries: [...entries()] }
}

t.test('reads what it writes', async t => {
  const entries = [
    entry('a b/ü', { mtimeMs: -5_000 }),
    entry('a/link', { mode: 0o120777, size: 3 }),
    entry('a/run', { mode: 0o100755, size: 2 ** 40 }),
    entry('z')
  ]
  for (const digits of [16, 64] as const) {
    const body = bodyOf(entries, digits)
    const tree = {
      digits,
      count: 4,
      bytes: 13 + 2 ** 40,
      treeSha256: sha256Of(entries),
      contentsSha256: contentsOf(entries),
      entries: entries.map(each => ({ ...each, sha256: each.sha256.slice(0, digits) }))
    }
    t.strictSame(read(body), tree)
    t.strictSame(read(gzipSync(body)), tree, 'compressed')
    t.match(read(bodyOf([], digits)), { count: 0, entries: [], treeSha256: sha256Of([]) })
  }
})

t.test('refuses broken gzip data, and data that inflates too much', t => {
  const body = gzipSync(bodyOf([entry('a'), entry('b')]))
  for (const broken of [body.subarray(0, -9), body.subarray(0, 3), Buffer.concat([body.subarray(0, 12), body])]) {
    t.throws(() => readTree(broken), { kind: 'invalid', code: 'broken_gzip' })
  }
  const large = { kind: 'too_large', code: 'tree_too_large' }
  t.throws(() => readTree(gzipSync(Buffer.alloc(8 * 1024 * 1024))), { ...large, message: '200 times' })
  t.throws(() => readTree(Buffer.alloc(64 * 1024 * 1024 + 1)), { ...large, message: '64 MB' })
  t.end()
})

t.test('counts the directories as an archive does', t => {
  const deep = (at: number): TimedEntry => entry(`${at}/${'x/'.repeat(700)}f`)
  t.doesNotThrow(() => read(bodyOf(Array.from({ length: 9 }, (_, at) => deep(at)))))
  const message = 'too many directories for the 30 entries'
  const many = Array.from({ length: 30 }, (_, at) => deep(at + 10))
  t.throws(() => read(bodyOf(many)), { code: 'invalid_tree', message })
  t.end()
})

t.test('refuses a body that is not a tree, with the number of the line', async t => {
  const good = bodyOf([entry('a'), entry('b')])
  const end = good.split('\n')[3] as string
  const other = bodyOf([entry('a')]).split('\n')[2] as string
  const cases: Array<[string, string | Buffer, number]> = [
    ['another version', good.replace('svc-tree 1 64', 'svc-tree 2 64'), 1],
    ['another number of digits', good.replace('svc-tree 1 64', 'svc-tree 1 32'), 1],
    ['fewer digits than it says', good.replace('svc-tree 1 64', 'svc-tree 1 16'), 2],
    ['a short tree without the digest of its contents', bodyOf([], 16).replace(/ [0-9a-f]{64}\n$/, '\n'), 2],
    ['a full tree with another digest', good.replace(/\n$/, ` ${digits}\n`), 4],
    ['no last newline', good.slice(0, -1), 1],
    ['not UTF-8', Buffer.concat([Buffer.from(good), Buffer.from([0xff, 0x0a])]), 1],
    ['nothing', '', 1],
    ['unsorted', bodyOf([entry('b'), entry('a')]), 3],
    ['doubled', bodyOf([entry('a'), entry('a')]), 3],
    ['absolute', bodyOf([entry('a'), entry('/b')].reverse()), 2],
    ['two dots', bodyOf([entry('../a')]), 2],
    ['two dots within', bodyOf([entry('a/../../b')]), 2],
    ['a dot segment', bodyOf([entry('a/./b')]), 2],
    ['a trailing slash', bodyOf([entry('a/')]), 2],
    ['a backslash', bodyOf([entry('a\\b')]), 2],
    ['a carriage return', bodyOf([entry('a\r')]), 2],
    ['over-long', bodyOf([entry(`${'x/'.repeat(1600)}x`)]), 2],
    ['a long name', bodyOf([entry('x'.repeat(256))]), 2],
    ['the staging directory', bodyOf([entry('.svc-staging-dep_1/a')]), 2],
    ['a directory', bodyOf([entry('a', { mode: 0o040755 })]), 2],
    ['a device', bodyOf([entry('a', { mode: 0o060644 })]), 2],
    ['no permissions', bodyOf([entry('a', { mode: 0o100000 })]), 2],
    ['setuid', bodyOf([entry('a', { mode: 0o104755 })]), 2],
    ['another link', bodyOf([entry('a', { mode: 0o120644 })]), 2],
    ['a huge size', bodyOf([entry('a')]).replace(' 5 ', ' 9999999999999999 '), 2],
    ['a huge time', bodyOf([entry('a')]).replace(' 1000 ', ' 9999999999999999 '), 2],
    ['upper-case digits', good.replace(digits, digits.toUpperCase()), 2],
    ['an empty line', good.replace('\nend', '\n\nend'), 4],
    ['below a file', bodyOf([entry('a'), entry('a-b'), entry('a/b')]), 2],
    ['below a link', bodyOf([entry('a', { mode: 0o120777 }), entry('a/b')]), 2],
    ['another end', good.replace(end, other), 4],
    ['a wrong digest', good.replace(/[0-9a-f]{64}\n$/, `${digits}\n`), 4],
    ['an odd end', good.replace(end, 'end of it'), 4],
    ['no end', good.replace(`${end}\n`, ''), 4],
    ['more after the end', `${good}100644\n`, 5]
  ]
  for (const [what, body, line] of cases) {
    const message = new RegExp(`^The tree is invalid in line ${line}: .*[^.]$`)
    t.throws(() => readTree(Buffer.from(body as string)), { kind: 'invalid', code: 'invalid_tree', message }, what)
  }
})

t.test('refuses more entries than an archive may have', async t => {
  const many = Array.from({ length: maxTreeEntries + 1 }, (_, i) => entry(String(i).padStart(6, '0')))
  t.equal(read(bodyOf(many.slice(1))).count, maxTreeEntries)
  t.throws(() => read(bodyOf(many)), { kind: 'too_large', code: 'tree_too_large' })
})

function codeOf(check: () => void): string | null {
  try {
    check()
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw error
  }
}

function checkSorted(entries: NamedEntry[]): void {
  const names = createSortedNames()
  for (const entry of entries) {
    const above = names.add(entry)
    if (above !== null) throw above.refusal
  }
  names.end()
}

const folds = () => ({ letterCase: false, normalForm: false })

t.test('sorted names are judged like all names together', t => {
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48_271) % 0x7fffffff) % below
  let refused = 0
  for (let round = 0; round < 2000; round++) {
    const paths = new Set<string>()
    for (let at = 0; at < 4; at++) {
      paths.add(Array.from({ length: 1 + random(3) }, () => ['a', 'a-', 'a.b', 'é', 'b'][random(5)]).join('/'))
    }
    const entries = [...paths]
      .sort(compareTreePaths)
      .map(path => ({ path, kind: random(2) === 0 ? ('file' as const) : ('symlink' as const) }))
    const codes = [codeOf(() => checkSorted(entries)), codeOf(() => checkNames(entries, { windows: false, folds }))]
    // An archive with several such pairs may name another one.
    t.equal(codes[0] === null, codes[1] === null, JSON.stringify(entries))
    if (codes[0] !== null) refused++
  }
  t.ok(refused > 100 && refused < 1900)
  t.end()
})

t.test('a name that needs too many directories is refused', t => {
  const entries = Array.from({ length: 30 }, (_, at) => ({
    path: `${at + 10}/${'x/'.repeat(700)}f`,
    kind: 'file' as const
  }))
  t.equal(
    codeOf(() => checkSorted(entries)),
    'too_many_directories'
  )
  t.equal(
    codeOf(() => checkNames(entries, { windows: false, folds })),
    'too_many_directories'
  )
  t.equal(
    codeOf(() => checkSorted(entries.slice(0, 5))),
    null
  )
  t.end()
})
