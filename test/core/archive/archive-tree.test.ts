import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { entriesOfArchive, treeOfArchive } from '../../../lib/core/archive/archive-tree.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { zipOf } from '../../support/zip.js'

const limits = { maxEntries: 100, maxExtractedBytes: 1000 }
const { signal } = new AbortController()

t.test('computes the tree of an archive, in the order of trees', async t => {
  const path = join(t.testdir(), 'a.zip')
  writeFileSync(path, await zipOf({ 'b.txt': 'bb', 'a/c.txt': 'c' }))
  const { treeSha256, fileCount, bytes } = await treeOfArchive(path, limits, signal)
  const archive = await openArchive(path, limits)
  const mode = (0o100000 | (archive.entries[0]?.mode ?? 0o644)).toString(8)
  archive.close()
  const line = (name: string, text: string) =>
    `${mode} ${text.length} ${createHash('sha256').update(text).digest('hex')} ${name}\n`
  const text = `svc-tree 1\n${line('a/c.txt', 'c')}${line('b.txt', 'bb')}`
  t.equal(treeSha256, createHash('sha256').update(text).digest('hex'))
  t.same([fileCount, bytes], [2, 3])
})

t.test('takes known digests of the same size, and reads the other entries', async t => {
  const path = join(t.testdir(), 'a.zip')
  writeFileSync(path, await zipOf({ c: 'c', 'b/x': 'bb', a: 'a', d: 'd' }))
  const archive = await openArchive(path, limits)
  async function* known() {
    for (const [name, size] of [
      ['a', 1],
      ['b', 2],
      ['b/x', 9],
      ['d', 1],
      ['c', 1]
    ] as const)
      yield { path: name, size, sha256: 'f'.repeat(64) }
  }
  const entries = await entriesOfArchive(archive, { known: known() })
  archive.close()
  const digest = (text: string) => createHash('sha256').update(text).digest('hex')
  // One that comes too late is not taken.
  t.strictSame(
    entries.map(({ path: name, sha256 }) => [name, sha256]),
    [
      ['a', 'f'.repeat(64)],
      ['b/x', digest('bb')],
      ['c', digest('c')],
      ['d', 'f'.repeat(64)]
    ]
  )
})

t.test('refuses damaged archives, and those that are too large', async t => {
  const path = join(t.testdir(), 'a.zip')
  const zip = await zipOf({ a: 'the contents' })
  writeFileSync(path, zip)
  await t.rejects(treeOfArchive(path, { ...limits, maxExtractedBytes: 3 }, signal), { code: 'extracted_too_large' })
  const at = zip.indexOf('the contents')
  if (at > 0) zip[at] = 0x58
  else zip[40] = (zip[40] as number) ^ 0xff
  writeFileSync(path, zip)
  await t.rejects(treeOfArchive(path, limits, signal), { code: /crc_mismatch|damaged_entry|damaged_zip/ })
})
