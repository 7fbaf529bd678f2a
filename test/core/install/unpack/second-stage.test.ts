import type { Extracted } from '../../../../lib/core/install/unpack/extraction.js'
import t from 'tap'
import type { Test } from 'tap'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { type Archive, type ArchiveEntry, openArchive } from '../../../../lib/core/archive/read.js'
import { createExecutors } from '../../../../lib/core/install/unpack/executors.js'
import {
  batchesOf,
  type BeginSecond,
  createSecondThread,
  type SecondStage
} from '../../../../lib/core/install/unpack/second-stage.js'
import { disk } from '../../../../lib/core/install/disk.js'
import { createRecords, planTarget, type Records } from '../../../../lib/core/install/plan.js'
import { holdTarget } from '../../../../lib/core/install/held.js'
import { furnishStaging, makeStaging } from '../../../../lib/core/install/staging.js'
import { extractionStage } from '../../../support/extraction.js'
import { type EntryPlan, makeZip } from '../../../support/make-zip.js'
import { snapshot } from '../../../support/tree.js'
import { isThorough } from '../../../support/thorough.js'

const skip = cpus().length < 2 && 'one processor has no use for a second thread'
const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }

let started = 0
process.on('worker', () => void started++)

interface Begun {
  second: SecondStage
  archive: Archive
  records: Records
  files: string
}

/** An extraction that has reached staging. */
async function beginStaging(t: Test, begin: (archivePath: string) => BeginSecond, plans: EntryPlan[]): Promise<Begun> {
  const stage = extractionStage(t.testdir({ target: { d: { 1: 'old' } } }))
  stage.put(makeZip(plans))
  const archive = await openArchive(stage.archivePath, limits)
  const root = holdTarget(disk, stage.target)
  const plan = planTarget(disk, root, archive.entries)
  const records = createRecords(plans.length)
  plan.existing.forEach((existing, index) => records.setExisting(index, existing))
  const staging = makeStaging(disk, root, 'dep_test')
  furnishStaging(disk, staging, { plan, isStaged: () => true, made: new Set() })
  t.teardown(() => {
    for (const each of [staging, root, archive]) each.close()
  })
  const held = { path: root.path, fd: root.fd }
  const task = { root: held, staging: staging.path, umask: 0o022, toleranceMs: 2, records: records.memory }
  t.equal(begin(stage.archivePath)(task, 999), null, 'a thread for a few files would not save time')
  const second = begin(stage.archivePath)(task, 1000) as SecondStage
  return { second, archive, records, files: join(stage.target, '.svc-staging-dep_test/files') }
}

const batchOf = ({ entries }: Archive) => entries.map((entry, index) => ({ index, entry }))

t.test('the second thread stages its batches, and the next extraction reuses it', { skip }, async t => {
  const { of } = createSecondThread()
  for (let round = 0; round < 2; round++) {
    await t.test(`round ${round}`, async t => {
      const plans = ['d/0', 'd/1', 'd/2'].map(name => ({ name, data: `${name} `.repeat(100), method: 8 as const }))
      const { second, archive, records, files } = await beginStaging(t, of, plans)
      t.equal(second.take(batchOf(archive)), true)
      await second.settled()
      t.equal(readFileSync(join(files, 'd/1'), 'utf8'), 'd/1 '.repeat(100))
      t.strictSame([0, 1, 2].map(records.outcome), ['staged', 'staged', 'staged'])
      t.strictSame(
        [0, 1, 2].map(index => records.before(index)?.size),
        [undefined, 3, undefined]
      )
    })
  }
  t.equal(started, 1)
})

t.test('takes only small files, and at most two batches ahead', { skip }, async t => {
  const plans = [
    { name: 'large', data: Buffer.alloc(600_000), method: 8 as const },
    { name: 'small', data: 'x' }
  ]
  const { second, archive, files } = await beginStaging(t, createSecondThread().of, plans)
  t.equal(second.take(batchOf(archive)), false)
  // The thread has not started yet.
  t.strictSame(
    [1, 2, 3].map(() => second.take([])),
    [true, true, false]
  )
  second.stop()
  t.equal(second.isStopped(), true)
  await second.settled()
  t.strictSame(readdirSync(files), [])
})

t.test('an error stops the thread and is reported', { skip }, async t => {
  const plans = [
    { name: 'a', data: 'x' },
    { name: 'b', data: 'x', crc32: 1 },
    { name: 'c', data: 'x' }
  ]
  const { second, archive, files } = await beginStaging(t, createSecondThread().of, plans)
  second.take(batchOf(archive))
  await t.rejects(second.settled(), { code: 'crc_mismatch' })
  t.equal(second.isStopped(), true)
  t.strictSame(readdirSync(files), ['a'])
})

const many = Array.from(
  { length: 3000 },
  (_, i): EntryPlan => ({ name: `d${i % 7}/f${i}`, data: `${i} `.repeat(50), method: 8 })
)

/** Inodes differ by nature. */
const manifestsOf = (deployments: string): string[] =>
  snapshot(deployments).map(line => line.replace(/"ino":\d+/g, '"ino":0'))

t.test('two threads produce the same result as one', async t => {
  const [one, two] = ['one', 'two'].map(name => extractionStage(join(t.testdirName, name)))
  t.testdir({ one: { target: {}, deployments: {} }, two: { target: {}, deployments: {} } })
  const threads = createExecutors()
  t.teardown(() => threads.close())
  for (const zip of [
    makeZip(many),
    makeZip(many.map((plan, i) => (i % 3 === 0 ? { ...plan, data: `other ${i}` } : plan)))
  ]) {
    one?.put(zip)
    two?.put(zip)
    // Only an extraction in a thread says when inodes were changed.
    const ofThreads = await two?.runThreads({ threads })
    const { ctimes, ...result } = ofThreads as Extracted
    t.equal(ctimes?.length, many.length)
    t.strictSame(result, await one?.run())
    t.strictSame(snapshot(two?.target as string), snapshot(one?.target as string))
    t.strictSame(manifestsOf(two?.deployments as string), manifestsOf(one?.deployments as string))
  }
})

t.test('a damaged entry anywhere, or an abort, leaves the target unchanged', async t => {
  const stage = extractionStage(t.testdir())
  const threads = createExecutors()
  t.teardown(() => threads.close())
  writeFileSync(join(stage.target, 'own'), 'a file')
  writeFileSync(join(stage.target, 'other'), 'stays')
  for (const damaged of isThorough ? [0, 700, 1500, 2999] : [0, 1500]) {
    stage.put(makeZip(many.map((plan, i) => (i === damaged ? { ...plan, crc32: 1 } : plan))))
    await t.rejects(stage.runThreads({ threads }), { code: 'crc_mismatch' }, `entry ${damaged}`)
    t.strictSame(stage.state(), ['other 644 stays', 'own 644 a file'])
  }
  stage.put(makeZip(many))
  for (const delayMs of isThorough ? [10, 30, 60, 90] : [10, 60]) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('enough')), delayMs)
    const outcome = await stage.runThreads({ threads, signal: controller.signal }).then(() => 'done', String)
    if (outcome === 'done') break
    t.strictSame(stage.state(), ['other 644 stays', 'own 644 a file'], `after ${delayMs} ms: ${outcome}`)
  }
})

/** More files than fit in one batch, and two that are read in pieces. */
const files = [
  ...Array.from({ length: 200 }, (_, index) => ({
    name: `f${index}`,
    data: `small ${index}`,
    method: index % 2 === 0 ? 8 : 0
  })),
  { name: 'stored', data: Buffer.alloc(1_500_000, 's') },
  { name: 'deflated', data: Buffer.alloc(1_500_000, 'd'), method: 8 }
]

t.test('stages every file of an archive, small and large', async t => {
  const stage = extractionStage(t.testdir({}))
  stage.put(makeZip(files))
  const { changedCount } = await stage.run()
  t.equal(changedCount, files.length)
  for (const { name, data } of files) t.ok(readFileSync(join(stage.target, name)).equals(Buffer.from(data)))
})

t.test('can be aborted between files and within a large one, and leaves the target unchanged', async t => {
  const stage = extractionStage(t.testdir({}))
  stage.put(makeZip(files))
  const before = stage.state()
  for (const after of [1, 150, 205]) {
    let calls = 0
    const check = (): void => {
      if (++calls > after) throw new Error('enough')
    }
    await t.rejects(stage.run({ check }), { message: 'enough' }, `after ${after} calls`)
    t.strictSame(stage.state(), before)
  }
})

function entry(kind: ArchiveEntry['kind'], size: number): ArchiveEntry {
  return { kind, size, compressedSize: size, path: 'f', method: 0, crc32: 0, mode: null, mtimeMs: null } as ArchiveEntry
}

const indexes = (entries: ArchiveEntry[]): number[][] =>
  [...batchesOf(entries, () => true)].map(batch => batch.map(({ index }) => index))

t.test('groups small files, yields large ones alone, and skips other entries', async t => {
  const sizes = [1, 600_000, 1, 1]
  const entries = [entry('directory', 0), ...sizes.map(size => entry('file', size)), entry('symlink', 1)]
  t.strictSame(indexes(entries), [[2], [1, 3, 4]])
})

t.test('a batch has at most 64 files, and ends after 2 MiB', async t => {
  const counts = (count: number, size: number) => indexes(Array(count).fill(entry('file', size))).map(b => b.length)
  t.strictSame(counts(150, 1), [64, 64, 22])
  t.strictSame(counts(10, 400_000), [3, 3, 3, 1])
})
