import t from 'tap'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { crc32 } from '../../../../lib/base/digests.js'
import type { ManifestFile } from '../../../../lib/model/manifest.js'
import { extractionStage, type ExtractionStage, pathsOf, refusalOf } from '../../../support/extraction.js'
import { type EntryPlan, makeZip, type ZipPlan } from '../../../support/make-zip.js'
import { disk, type Disk } from '../../../../lib/core/install/disk.js'
import { createExecutors } from '../../../../lib/core/install/unpack/executors.js'
import { recoverTargets } from '../../../../lib/core/install/unpack/extract.js'
import { discardLeft, filesAt, type LeftStaging } from '../../../../lib/core/install/unpack/extraction.js'
import { beginJournal } from '../../../../lib/core/install/journal.js'
import { describeJournal } from '../../../../lib/core/install/undo.js'

const threads = createExecutors()

/** A target with entries of every kind, and the entries that must remain. */
function furnished(directory: string): ExtractionStage {
  const stage = extractionStage(directory)
  mkdirSync(join(stage.target, 'site/assets'), { recursive: true })
  writeFileSync(join(stage.target, 'site/index.html'), 'old page')
  writeFileSync(join(stage.target, 'site/assets/app.js'), 'old code')
  writeFileSync(join(stage.target, 'keep.txt'), 'kept')
  mkdirSync(join(directory, 'outside'))
  writeFileSync(join(directory, 'outside/secret'), 'secret')
  symlinkSync('../outside', join(stage.target, 'out'))
  return stage
}

t.test('follows no link that the archive replaces, unless an edited one is kept', async t => {
  const stage = furnished(t.testdir())
  symlinkSync('new', join(stage.target, 'old'))
  stage.put(
    makeZip([
      { name: 'old', data: 'x' },
      { name: 'new', data: 'old', mode: 0o120777 },
      { name: 'out', data: 'y' },
      { name: 'in', data: 'out', mode: 0o120777 }
    ])
  )
  const nothing = { archives: [], before: { maxBytes: 0, isRequired: false } }
  stage.ownership = { tree: null, edited: 'keep', removes: null, exact: null, ...nothing }
  await t.rejects(stage.run(), { code: 'link_loop' })
  stage.ownership = undefined
  await stage.run()
  t.equal(readFileSync(join(stage.target, 'new'), 'utf8'), 'x')
  t.equal(readFileSync(join(stage.target, 'in'), 'utf8'), 'y')
})

t.test('extracts files, directories and links with modes and times', async t => {
  const stage = furnished(t.testdir())
  stage.put(
    makeZip([
      { name: 'new/', mode: 0o040750 },
      { name: 'new/run.sh', data: '#!', mode: 0o100755 },
      { name: 'new/secret', data: 's', mode: 0o100600 },
      { name: 'new/shared', data: 's', mode: 0o100666 },
      { name: 'new/empty/', mode: 0o040500 },
      { name: 'link', data: 'new/run.sh', mode: 0o120777 },
      { name: 'site/index.html', data: 'new page', method: 8 },
      { name: 'deep/er/still/file', data: 'x' }
    ])
  )
  const { fileCount, bytes, changedPaths } = await stage.run()
  t.equal(fileCount, 6)
  t.equal(bytes, 2 + 1 + 1 + 10 + 8 + 1)
  t.strictSame(changedPaths, [
    'deep/er/still/file',
    'link',
    'new/run.sh',
    'new/secret',
    'new/shared',
    'site/index.html'
  ])
  const mode = (path: string): string => (lstatSync(join(stage.target, path)).mode & 0o7777).toString(8)
  t.strictSame(['new', 'new/run.sh', 'new/secret', 'new/shared', 'new/empty'].map(mode), [
    '750',
    '755',
    '600',
    '666',
    '700'
  ])
  t.equal(readFileSync(join(stage.target, 'link'), 'utf8'), '#!')
  t.equal(readFileSync(join(stage.target, 'site/index.html'), 'utf8'), 'new page')
  t.equal(readFileSync(join(stage.target, 'keep.txt'), 'utf8'), 'kept', 'files that the archive does not name stay')
  t.equal(statSync(join(stage.target, 'new/run.sh')).mtimeMs, new Date(2024, 5, 15, 12, 30).getTime())
  t.equal(statSync(join(stage.target, 'new')).mtimeMs, new Date(2024, 5, 15, 12, 30).getTime())
  t.notOk(
    stage.state().some(line => line.includes('.undo') || line.includes('.svc-staging')),
    'no temporary file remains'
  )
})

t.test('the manifest lists the new and the replaced files', async t => {
  const stage = furnished(t.testdir())
  chmodSync(join(stage.target, 'site/index.html'), 0o640)
  const oldTimeMs = statSync(join(stage.target, 'site/index.html')).mtimeMs
  stage.put(
    makeZip([
      { name: 'site/index.html', data: 'new', mode: 0o100644 },
      { name: 'a', data: '', mode: 0o100644 }
    ])
  )
  await stage.run()
  const manifestPath = join(stage.deployments, 'dep_test.manifest')
  const lines = readFileSync(manifestPath, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as ManifestFile)
  const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
  const now = (path: string) => {
    const { mtimeMs, ino } = statSync(join(stage.target, path))
    return { mtimeMs, ino }
  }
  t.strictSame(lines, [
    { path: 'a', size: 0, mode: 0o100644, sha256: digest(''), ...now('a'), before: null },
    {
      path: 'site/index.html',
      size: 3,
      mode: 0o100644,
      sha256: digest('new'),
      ...now('site/index.html'),
      before: { size: 8, mode: 0o100640, sha256: digest('old page'), mtimeMs: oldTimeMs, kept: 'none' }
    }
  ])
})

t.test('leaves many replaced files to the caller, whatever happens while they are removed', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  const zip = (text: string): Buffer =>
    makeZip(Array.from({ length: 256 }, (_, at) => ({ name: `f${at}`, data: `${text}${at}` })))
  const after = (): string[] => readdirSync(stage.target).filter(name => name.startsWith('.svc-'))
  stage.put(zip('old'))
  t.equal((await stage.run({ mayLeave: true })).left, undefined, 'nothing was replaced')
  const journal = pathsOf(directory, 'dep_test').journalPath
  // The disk is full, or the process is killed, at the n-th call; then the next start finishes.
  for (const failing of [0, 1, 40, 256, 257, 259]) {
    stage.put(zip(`new ${failing}`))
    const { left } = await stage.run({ mayLeave: true })
    t.ok(left && existsSync(journal))
    t.strictSame(after(), ['.svc-staging-dep_test'])
    let calls = 0
    const fail = (): void => {
      if (calls++ === failing) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    }
    const full: Disk = {
      ...disk,
      unlinkSync: path => (fail(), disk.unlinkSync(path)),
      unlink: ((path, done) => {
        try {
          fail()
        } catch (error) {
          return done(error as Error)
        }
        disk.unlink(path, done)
      }) as Disk['unlink'],
      rmdirSync: path => (fail(), disk.rmdirSync(path))
    }
    await t.rejects(discardLeft(full, left as LeftStaging), { code: 'ENOSPC' }, `call ${failing}`)
    t.equal(readFileSync(join(stage.target, 'f255'), 'utf8'), `new ${failing}255`)
    const ids: string[] = []
    const onComplete = async (id: string): Promise<void> => void ids.push(id)
    await recoverTargets(threads, { home: { deployments: stage.deployments }, onComplete })
    t.strictSame(ids, ['dep_test'])
    t.strictSame([after(), existsSync(journal)], [[], false])
    await discardLeft(disk, left as LeftStaging)
  }
  t.strictSame(readdirSync(stage.target).length, 256)
})

t.test('leaves identical files untouched', async t => {
  const stage = extractionStage(t.testdir())
  const zip = [
    { name: 'a', data: 'one', mode: 0o100644 },
    { name: 'l', data: 'a', mode: 0o120777 },
    { name: 'd/b', data: 'two' }
  ]
  stage.put(makeZip(zip))
  await stage.run()
  const inode = (path: string): number => lstatSync(join(stage.target, path)).ino
  const before = ['a', 'l', 'd/b'].map(inode)
  t.strictSame((await stage.run()).changedPaths, [])
  t.strictSame(['a', 'l', 'd/b'].map(inode), before)
  utimesSync(join(stage.target, 'a'), 1, 1)
  t.strictSame((await stage.run()).changedPaths, [], 'another time is no other content')
  t.equal(inode('a'), before[0], 'the file is the same')
  const archiveTimeMs = new Date(2024, 5, 15, 12, 30).getTime()
  t.equal(statSync(join(stage.target, 'a')).mtimeMs, archiveTimeMs, 'and has the time of the archive')
  linkSync(join(stage.target, 'a'), join(stage.target, 'elsewhere'))
  utimesSync(join(stage.target, 'a'), 1, 1)
  await stage.run()
  t.equal(statSync(join(stage.target, 'a')).mtimeMs, archiveTimeMs)
  t.equal(statSync(join(stage.target, 'elsewhere')).mtimeMs, 1000, 'a file that has another name keeps its time there')
})

t.test('replaces a link by a file and the reverse, without following it', async t => {
  const stage = furnished(t.testdir())
  stage.put(
    makeZip([
      { name: 'out', data: 'a file now' },
      { name: 'keep.txt', data: 'site', mode: 0o120777 }
    ])
  )
  t.strictSame((await stage.run()).changedPaths, ['keep.txt', 'out'])
  t.equal(readFileSync(join(stage.target, 'out'), 'utf8'), 'a file now')
  t.ok(lstatSync(join(stage.target, 'keep.txt')).isSymbolicLink())
  t.equal(readFileSync(join(stage.target, '../outside/secret'), 'utf8'), 'secret')
})

t.test('accepts a target that is a link', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  rmdirSync(stage.target)
  mkdirSync(join(directory, 'real'))
  symlinkSync('real', stage.target)
  stage.put(makeZip([{ name: 'd/a', data: 'x' }]))
  await stage.run()
  t.equal(readFileSync(join(directory, 'real/d/a'), 'utf8'), 'x')
})

const a = { name: 'a', data: 'hello' }
const refusals: Array<[zip: ZipPlan | EntryPlan[], code: string, what: string]> = [
  [[a, { name: '../x' }], 'path_leaves_target', 'a path upwards'],
  [[a, { name: '/x' }], 'absolute_path', 'an absolute path'],
  [[a, { ...a, name: 'b', crc32: 1 }], 'crc_mismatch', 'a wrong CRC'],
  [[a, { name: 'b', data: 'x'.repeat(5000), method: 8, size: 10 }], 'size_mismatch', 'more bytes than declared'],
  [
    [a, { name: 'b', data: 'x'.repeat(3e6), method: 8, size: 2e6 }],
    'size_mismatch',
    'more bytes than declared, streamed'
  ],
  [[a, { name: 'b', data: 'x'.repeat(3e6), method: 8, crc32: 1 }], 'crc_mismatch', 'a wrong CRC, streamed'],
  [[a, a], 'duplicate_entry', 'the same name twice'],
  [[a, { name: 'a/b' }], 'file_and_directory', 'a file and a directory'],
  [[a, { name: 'l', data: '/etc', mode: 0o120777 }], 'link_leaves_target', 'an absolute link'],
  [[a, { name: 'l', data: '../..', mode: 0o120777 }], 'link_leaves_target', 'a link upwards'],
  [[a, { name: 'l', data: 'out/x', mode: 0o120777 }], 'link_leaves_target', 'a link through a link that leaves'],
  [
    [a, { name: 'l', data: 'site', mode: 0o120777 }, { name: 'l/x' }],
    'written_through_link',
    'a file through a link of the archive'
  ],
  [[a, { name: 'out/x', data: 'x' }], 'written_through_link', 'a file through a link of the target'],
  [[a, { name: 'out/' }], 'written_through_link', 'a directory that is a link in the target'],
  [[a, { name: 'keep.txt/x' }], 'file_in_the_way', 'a directory where the target has a file'],
  [[a, { name: 'site', data: 'x' }], 'directory_in_the_way', 'a file where the target has a directory'],
  [[a, { name: 'b', data: 'x', sharesBytesOf: 0 }], 'overlapping_entries', 'overlapping entries'],
  [[a, { name: 'b', data: 'x', localSignature: 7 }], 'damaged_zip', 'a lying local header'],
  [[a, { name: 'b', data: 'x'.repeat(2e6), method: 8 }], 'extracted_too_large', 'past the limit']
]

t.test('a refused archive changes nothing', async t => {
  const stage = furnished(t.testdir())
  const before = stage.state()
  for (const [zip, code, what] of refusals) {
    stage.put(makeZip(zip))
    const limit = code === 'extracted_too_large' ? 1e6 : 1e9
    t.equal((await refusalOf(stage.run({ maxExtractedBytes: limit }))).code, code, what)
    t.strictSame(stage.state(), before, `${what}: nothing has changed`)
  }
})

t.test('a conflict names the entry in the way', async t => {
  const stage = furnished(t.testdir())
  stage.put(makeZip([{ name: 'keep.txt/x' }]))
  const { message, kind } = await refusalOf(stage.run())
  t.equal(kind, 'conflict')
  t.equal(message, 'Nothing was changed: "keep.txt" is a directory in the archive, but a file in the target')
})

t.test('refuses a zip bomb of overlapping entries without inflating anything', async t => {
  const stage = extractionStage(t.testdir())
  const data = Buffer.alloc(1_000_000, '0')
  const kernel: EntryPlan = { name: 'f0', raw: deflateRawSync(data), size: data.length, crc32: crc32(data), method: 8 }
  const quotes = Array.from({ length: 2000 }, (_, i): EntryPlan => ({ ...kernel, name: `f${i + 1}`, sharesBytesOf: 0 }))
  stage.put(makeZip([kernel, ...quotes]))
  const { code } = await refusalOf(stage.run({ maxExtractedBytes: 1e12 }))
  t.equal(code, 'overlapping_entries')
})

t.test('extracts 70,000 entries', async t => {
  const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'svc-test-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const stage = extractionStage(directory)
  const entries = Array.from({ length: 70_000 }, (_, i) => ({ name: `d${i % 50}/f${i}`, data: '' }))
  stage.put(makeZip({ entries, zip64: true }))
  const { fileCount, changedPaths } = await stage.run()
  t.equal(fileCount, 70_000)
  t.equal(changedPaths.length, 70_000)
})

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
