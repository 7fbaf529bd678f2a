import t, { type Test } from 'tap'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { openArchive, type Archive } from '../../../lib/archive/read.js'
import { createExecutors } from '../../../lib/install/unpack/executors.js'
import { createSecondThread, type BeginSecond, type SecondStage } from '../../../lib/install/unpack/second-stage.js'
import { disk } from '../../../lib/install/disk.js'
import { planTarget } from '../../../lib/install/plan.js'
import { holdTarget } from '../../../lib/install/reach.js'
import { createRecords, type Records } from '../../../lib/install/record.js'
import { furnishStaging, makeStaging } from '../../../lib/install/staging.js'
import { extractionStage } from '../../support/extraction.js'
import { makeZip, type EntryPlan } from '../../support/make-zip.js'
import { snapshot } from '../../support/tree.js'
import { isThorough } from '../../support/thorough.js'

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
  furnishStaging(disk, staging, plan)
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
    t.strictSame(await two?.runThreads({ threads }), await one?.run())
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
