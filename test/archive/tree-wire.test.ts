import t from 'tap'
import { createTreeDigest } from '../../lib/model/tree.js'
import { maxTreeEntries, readTree, writeTree } from '../../lib/archive/tree-wire.js'
import type { TimedEntry } from '../../lib/archive/tree.js'

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

const bodyOf = (entries: TimedEntry[]): string => [...writeTree(entries, sha256Of(entries))].join('')
const read = (text: string) => readTree(Buffer.from(text))

t.test('reads what it writes', async t => {
  const entries = [
    entry('a b/ü', { mtimeMs: -5_000 }),
    entry('a/link', { mode: 0o120777, size: 3 }),
    entry('a/run', { mode: 0o100755, size: 2 ** 40 }),
    entry('z')
  ]
  const body = bodyOf(entries)
  t.strictSame(read(body), { entries, treeSha256: sha256Of(entries) })
  t.strictSame(read(bodyOf([])), { entries: [], treeSha256: sha256Of([]) })
})

t.test('refuses a body that is not a tree, with the number of the line', async t => {
  const good = bodyOf([entry('a'), entry('b')])
  const end = good.split('\n')[3] as string
  const other = bodyOf([entry('a')]).split('\n')[2] as string
  const cases: Array<[string, string | Buffer, number]> = [
    ['another version', good.replace('svc-tree 1 64', 'svc-tree 2 64'), 1],
    ['short digests', good.replace('svc-tree 1 64', 'svc-tree 1 16'), 1],
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
  t.equal(read(bodyOf(many.slice(1))).entries.length, maxTreeEntries)
  t.throws(() => read(bodyOf(many)), { kind: 'too_large', code: 'tree_too_large' })
})
