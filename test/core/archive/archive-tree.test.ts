import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { entriesOfArchive } from '../../../lib/core/archive/archive-tree.js'
import { treeOfKept } from '../../../lib/core/archive/pack-set.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { zipOf } from '../../support/zip.js'

const limits = { maxEntries: 100, maxExtractedBytes: 1000 }
const { signal } = new AbortController()

t.test('computes the tree of an archive, in the order of trees', async t => {
  const path = join(t.testdir(), 'a.zip')
  writeFileSync(path, await zipOf({ 'b.txt': 'bb', 'a/c.txt': 'c' }))
  const { treeSha256, fileCount, bytes } = await treeOfKept(path, limits, signal)
  const archive = await openArchive(path, limits)
  const mode = (0o100000 | (archive.entries[0]?.mode ?? 0o644)).toString(8)
  archive.close()
  const line = (name: string, text: string) =>
    `${mode} ${text.length} ${createHash('sha256').update(text).digest('hex')} ${name}\n`
  const text = `svc-tree 1\n${line('a/c.txt', 'c')}${line('b.txt', 'bb')}`
  t.equal(treeSha256, createHash('sha256').update(text).digest('hex'))
  t.same([fileCount, bytes], [2, 3])
})

t.test('reads the entries that have no digest yet', async t => {
  const path = join(t.testdir(), 'a.zip')
  writeFileSync(path, await zipOf({ c: 'c', 'b/x': 'bb', a: 'a' }))
  const archive = await openArchive(path, limits)
  const [known, read] = ['f'.repeat(64), createHash('sha256').update('bb').digest('hex')]
  const entries = await entriesOfArchive(archive, {
    async digest(sorted) {
      for (const entry of sorted) if (entry.size === 1) entry.sha256 = known
    }
  })
  archive.close()
  const found = entries.map(({ path: name, sha256 }) => [name, sha256])
  t.strictSame(found, Object.entries({ a: known, 'b/x': read, c: known }))
})

t.test('refuses damaged archives, and those that are too large', async t => {
  const path = join(t.testdir(), 'a.zip')
  const zip = await zipOf({ a: 'the contents' })
  writeFileSync(path, zip)
  await t.rejects(treeOfKept(path, { ...limits, maxExtractedBytes: 3 }, signal), { code: 'extracted_too_large' })
  const at = zip.indexOf('the contents')
  if (at > 0) zip[at] = 0x58
  else zip[40] = (zip[40] as number) ^ 0xff
  writeFileSync(path, zip)
  await t.rejects(treeOfKept(path, limits, signal), { code: /crc_mismatch|damaged_entry|damaged_zip/ })
})
