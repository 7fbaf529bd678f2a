import t from 'tap'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { createExecutors, defaultSmall, isSmallExtraction } from '../../../lib/install/unpack/executors.js'
import { extractionStage, type ExtractionStage, nothingIsSmall, pathsOf } from '../../support/extraction.js'
import { emptyDisk, fillDisk } from '../../support/full-disk.js'
import { makeZip } from '../../support/make-zip.js'
import { smallDisk } from '../../support/small-disk.js'
import { snapshot } from '../../support/tree.js'
import type { Job } from '../../../lib/install/unpack/extract-threads.js'
import { pruningOf } from '../../support/pruning.js'

t.test('uses threads of svc without user rights, and for a journal without a helper', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  t.equal(executors.as(null), await executors.ofJournal(null))
})

t.test('creates a target, and writes the list of changes to a private file', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const directory = t.testdir({})
  const target = await executors.makeTarget(null, join(directory, 'www'), { home: '/nowhere' } as never)
  t.ok(statSync(target).isDirectory())
  const list = join(directory, 'changes')
  await executors.writeChanges(null, list, [Buffer.from('a\n'), Buffer.from('b\n')])
  t.equal(readFileSync(list, 'utf8'), 'a\nb\n')
  t.equal(statSync(list).mode & 0o777, 0o600)
})

t.test('refuses a journal whose user no longer exists', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const helper = { user: 'no-such-user-of-svc', pid: 2 ** 22 + 1, startedAt: '1' }
  await t.rejects(executors.ofJournal(helper as never), { code: /./ })
})

const isLinux = process.platform === 'linux'
let started = 0
process.on('worker', () => void started++)
const executors = createExecutors()
t.teardown(() => executors.close())

/** The largest small archive: files that barely compress, which replace others. */
const largest = (version: number) =>
  makeZip(
    Array.from({ length: defaultSmall.entries }, (_, n) => ({
      name: `d${n % 7}/f${n}`,
      data: Buffer.alloc(3_900, `${version} ${n} `),
      method: 8
    }))
  )

t.test('a small archive starts no thread, and produces the same', { skip: !isLinux && 'threads are used' }, async t => {
  const [one, two] = ['one', 'two'].map(name => extractionStage(join(t.testdirName, name)))
  t.testdir({ one: { target: {}, deployments: {} }, two: { target: {}, deployments: {} } })
  const threads = createExecutors({ small: nothingIsSmall })
  t.teardown(() => threads.close())
  for (const version of [1, 2]) {
    one?.put(largest(version))
    two?.put(largest(version))
    const before = started
    const here = await one?.runThreads({ threads: executors })
    t.equal(started, before)
    t.strictSame(await two?.runThreads({ threads }), here)
    t.strictSame(snapshot(one?.target as string), snapshot(two?.target as string))
  }
  t.ok(started > 0)
  one?.put(makeZip(Array.from({ length: defaultSmall.entries + 1 }, (_, n) => ({ name: `f${n}`, data: '' }))))
  const before = started
  await one?.runThreads({ threads: executors })
  t.equal(started, before + 1, 'more entries take a thread')
})

t.test('other work has its turn during the largest small extraction', async t => {
  const stage = extractionStage(t.testdir())
  for (const version of [1, 2]) {
    stage.put(largest(version))
    let [turns, longestMs, isOver] = [0, 0, false]
    let used = process.cpuUsage()
    const turn = (): void => {
      const { user, system } = process.cpuUsage(used)
      used = process.cpuUsage()
      longestMs = Math.max(longestMs, (user + system) / 1000)
      turns++
      if (!isOver) setImmediate(turn)
    }
    setImmediate(turn)
    await stage.runThreads({ threads: executors })
    isOver = true
    t.ok(turns > 20, `${turns} turns`)
    // Processor time, because other processes share the machine.
    t.ok(longestMs < 100, `at most ${longestMs.toFixed(1)} ms at a time`)
  }
})

t.test('an abort while it is queued, or between files, leaves the target unchanged', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'own'), 'a file')
  stage.put(largest(1))
  const before = stage.state()
  await t.rejects(stage.runThreads({ threads: executors, signal: AbortSignal.abort(new Error('enough')) }), {
    message: 'enough'
  })
  for (const file of ['d0/f7', 'd4/f200']) {
    const controller = new AbortController()
    let isOver = false
    const look = (): void => {
      if (existsSync(join(stage.target, `.svc-staging-dep_test/files/${file}`))) controller.abort(new Error('enough'))
      else if (!isOver) setImmediate(look)
    }
    setImmediate(look)
    await t.rejects(stage.runThreads({ threads: executors, signal: controller.signal }), { message: 'enough' }, file)
    isOver = true
    t.strictSame(stage.state(), before)
  }
})

t.test('a damaged entry is refused as in a thread', async t => {
  const stage = extractionStage(t.testdir())
  stage.put(
    makeZip([
      { name: 'a', data: 'a' },
      { name: 'b', data: 'b', crc32: 1 }
    ])
  )
  await t.rejects(stage.runThreads({ threads: executors }), { code: 'crc_mismatch', kind: 'invalid' })
  t.strictSame([readdirSync(stage.target), readdirSync(stage.deployments)], [[], []])
})

t.test('a full disk leaves the target unchanged', async t => {
  const disk = smallDisk(t, 4 * 1024 * 1024)
  if (disk === null) return
  const stage = extractionStage(t.testdir(), 'dep_test', join(disk, 'target'))
  writeFileSync(join(stage.target, 'f'), 'old')
  stage.put(makeZip([{ name: 'f', data: Buffer.alloc(400_000, 'n') }]))
  const before = stage.state()
  const threads = started
  fillDisk(disk, 100_000)
  await t.rejects(stage.runThreads({ threads: executors }), { code: 'no_space', kind: 'unavailable' })
  t.strictSame(stage.state(), before)
  emptyDisk(disk)
  await stage.runThreads({ threads: executors })
  t.equal(readFileSync(join(stage.target, 'f'), 'utf8').length, 400_000)
  t.equal(started, threads, 'without a thread')
})

t.test('many small extractions at the same time all end', async t => {
  const directory = t.testdir()
  const stages = Array.from({ length: 12 }, (_, n) => {
    mkdirSync(join(directory, `${n}`))
    const stage = extractionStage(join(directory, `${n}`), `dep_${n}`)
    stage.put(makeZip([{ name: 'f', data: `${n}` }]))
    return stage
  })
  await Promise.all(stages.map(stage => stage.runThreads({ threads: executors })))
  stages.forEach(({ target }, n) => t.equal(readFileSync(join(target, 'f'), 'utf8'), `${n}`))
  rmSync(directory, { recursive: true })
})

t.test('a file that grows after the sizes were looked at does not stop the server', async t => {
  const stage = extractionStage(t.testdir({ target: { a: '' } }))
  // What a race would do: the limit lets the file pass.
  const careless = createExecutors({ small: { ...defaultSmall, existingBytes: Infinity } })
  t.teardown(() => careless.close())
  truncateSync(join(stage.target, 'a'), 900 * 2 ** 30)
  stage.put(makeZip([{ name: 'a', data: 'new' }]))
  await t.rejects(stage.runThreads({ threads: careless }), { code: 'changed_meanwhile' })
  t.strictSame(readdirSync(stage.target), ['a'], 'nothing else is left')
})

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
