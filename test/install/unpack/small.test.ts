import { mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Job } from '../../../lib/install/unpack/extract-threads.js'
import { defaultSmall, isSmallExtraction } from '../../../lib/install/unpack/small.js'
import { extractionStage, pathsOf, type ExtractionStage } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'
import { pruningOf } from '../../support/pruning.js'
import { smallDisk } from '../../support/small-disk.js'

type ExtractJob = Extract<Job, { kind: 'extract' }>

function jobOf(stage: ExtractionStage, directory: string, given: Partial<ExtractJob['extraction']> = {}): ExtractJob {
  const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }
  const extraction = { target: stage.target, deployId: 'dep_test', limits, umask: 0o022, masksModes: false, ...given }
  return { kind: 'extract', extraction, ...pathsOf(directory, 'dep_test') }
}

const files = (count: number, data = 'x') => makeZip(Array.from({ length: count }, (_, n) => ({ name: `f${n}`, data })))

t.test('is small up to the limits of archive, contents, and entries', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  const job = jobOf(stage, directory)
  stage.put(files(256))
  t.equal(await isSmallExtraction(job), true)
  t.equal(await isSmallExtraction(job, { ...defaultSmall, archiveBytes: 1000 }), false)
  t.equal(await isSmallExtraction(job, { ...defaultSmall, bytes: 255 }), false)
  stage.put(files(257))
  t.equal(await isSmallExtraction(job), false)
  stage.put(makeZip([{ name: 'zeros', data: Buffer.alloc(5e6), method: 8 }]))
  t.equal(await isSmallExtraction(job), false, 'a small archive with much in it')
  stage.put(Buffer.from('not a zip'))
  t.equal(await isSmallExtraction(job), false)
  rmSync(stage.archivePath)
  t.equal(await isSmallExtraction(job), false)
})

t.test('is not small if large files are replaced or may be removed', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  stage.put(files(2))
  const job = jobOf(stage, directory)
  const enlarge = (path: string): void => {
    writeFileSync(path, '')
    truncateSync(path, 1e10)
  }
  enlarge(join(stage.target, 'other'))
  t.equal(await isSmallExtraction(job), true, 'a file that is neither')
  const ownership = await pruningOf({ other: 'small once' })
  t.equal(await isSmallExtraction(jobOf(stage, directory, { ownership })), false, 'an owned file that has grown')
  t.equal(await isSmallExtraction(jobOf(stage, directory, { ownership: { ...ownership, removes: null } })), true)
  const treeBytes = (ownership.tree as Uint8Array).length - 1
  t.equal(
    await isSmallExtraction(jobOf(stage, directory, { ownership: { ...ownership, removes: null } }), {
      ...defaultSmall,
      treeBytes
    }),
    false
  )
  enlarge(join(stage.target, 'f1'))
  t.equal(await isSmallExtraction(job), false)
})

t.test('is not small with another file system below the target', async t => {
  const disk = smallDisk(t, 1024 * 1024)
  if (disk === null) return
  const directory = t.testdir()
  const stage = extractionStage(directory, 'dep_test', join(disk, 'target'))
  stage.put(files(2))
  t.equal(await isSmallExtraction(jobOf(stage, directory)), true)
  t.equal(await isSmallExtraction(jobOf(stage, directory, { target: join(disk, '..') })), false)
  const link = join(directory, 'link')
  symlinkSync(stage.target, link)
  t.equal(await isSmallExtraction(jobOf(stage, directory, { target: link })), true, 'links are followed')
  mkdirSync(join(directory, 'away'))
  renameSync(stage.target, join(disk, 'away'))
  t.equal(await isSmallExtraction(jobOf(stage, directory)), false, 'a target that is gone')
})
