/*
 * Every operation that holds a descriptor, made to fail: what is open afterwards is what was open before, and nothing
 * was closed twice.
 */
import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createEntryReader } from '../../lib/archive/entry-data.js'
import { openArchive } from '../../lib/archive/read.js'
import { watchDescriptors } from '../support/descriptors.js'
import { makeZip, type EntryPlan } from '../support/make-zip.js'

if (process.platform !== 'linux') {
  t.plan(0, 'descriptors are listed in /proc, which only Linux has')
  process.exit()
}

const directory = t.testdir()
const limits = { maxEntries: 1000, maxExtractedBytes: 1e12 }
const large = Buffer.alloc(3 * 1024 * 1024, 'svc ')

t.test('a large entry that ends in a failure', async t => {
  const watch = watchDescriptors()
  const cases: Record<string, EntryPlan> = {
    'inflates to more than declared': { name: 'a', data: large, method: 8, size: 600 * 1024 },
    'stored, with a wrong CRC': { name: 'a', data: large, crc32: 1 },
    'is no deflate': { name: 'a', data: large, method: 8, raw: Buffer.alloc(600 * 1024, 0xff) }
  }
  for (const [what, entry] of Object.entries(cases)) {
    const path = join(directory, 'entry.zip')
    writeFileSync(path, makeZip([entry]))
    const archive = await openArchive(path, limits)
    await t.rejects(createEntryReader(archive).readPieces(archive.entries[0]!, () => {}), what)
    archive.close()
    const again = await openArchive(path, limits)
    await t.rejects(createEntryReader(again).readPieces(again.entries[0]!, () => { throw new Error('given up') }), what)
    again.close()
    t.same([await watch.difference(), watch.faults], [[], []], what)
  }
  watch.stop()
})
