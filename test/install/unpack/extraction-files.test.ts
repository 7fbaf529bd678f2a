import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { disk } from '../../../lib/install/disk.js'
import { filesAt } from '../../../lib/install/unpack/extraction-files.js'
import { beginJournal } from '../../../lib/install/journal.js'
import { describeJournal } from '../../../lib/install/undo.js'
import { extractionStage, pathsOf } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'

t.test('opens the files of an extraction by their paths', async t => {
  const directory = t.testdir({})
  const { target, put } = extractionStage(directory)
  put(makeZip([{ name: 'index.html', data: 'page' }]))
  const paths = pathsOf(directory, 'dep_test')
  const files = filesAt(disk, paths)
  const archive = await files.openArchive({ maxEntries: 10, maxExtractedBytes: 100 })
  t.same(
    archive.entries.map(({ path }) => path),
    ['index.html']
  )
  await archive.close()
  await beginJournal(files.journal, target)
  t.ok(existsSync(paths.journalPath))
  t.equal(describeJournal(paths.journalPath)?.target, target)
  t.match(readFileSync(paths.journalPath, 'utf8'), /^svc-undo /)
  writeFileSync(paths.archivePath, 'no zip')
  await t.rejects(async () => files.openArchive({ maxEntries: 10, maxExtractedBytes: 100 }), { code: /./ })
})
