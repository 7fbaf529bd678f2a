import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { realDisk } from '../../../lib/core/store/disk.js'
import { encodeTransaction, readRedo, openFileLog, type FileLog } from '../../../lib/core/store/redo.js'
import { createFaultyDisk } from './stage.js'

/* What only the file has. The contract of every log is in redo.test.ts. */

const one = (n: number): string => encodeTransaction([{ sql: 'INSERT', values: [n] }])

async function aFileLog(t: Test, disk = realDisk): Promise<{ log: FileLog; path: string }> {
  const path = join(t.testdir(), 'svc.db.redo')
  const log = openFileLog({ disk, path, end: 0, torn: false, after: 0, last: 0 })
  await log.trim(0)
  t.teardown(() => log.close())
  return { log, path }
}

function firstsOf(path: string): number[] {
  return readRedo(realDisk.read(path) as Uint8Array, path).lines.map(({ first }) => first)
}

t.test('cuts exactly where the log was when a checkpoint began', async t => {
  const { log, path } = await aFileLog(t)
  for (let n = 1; n <= 3; n++) await log.append(n, [one(n)])
  log.mark()
  for (let n = 4; n <= 6; n++) await log.append(n, [one(n)])
  await log.trim(4)
  t.same(firstsOf(path), [4, 5, 6], 'the mark is after transaction 3')
  log.mark()
  await log.append(7, [one(7)])
  await log.trim(6)
  t.same(firstsOf(path), [7], 'marks move with the file')
  await log.trim(7)
  t.same(firstsOf(path), [])
  t.equal(log.end, readRedo(realDisk.read(path) as Uint8Array, path).end)
})

t.test('keeps few marks, also if no checkpoint succeeds', async t => {
  const { log, path } = await aFileLog(t)
  for (let n = 1; n <= 40; n++) {
    log.mark()
    await log.append(n, [one(n)])
  }
  await log.trim(20)
  t.same(firstsOf(path)[0], 1, 'the marks of then are gone, so nothing is cut')
  await log.append(41, [one(41)])
  await log.trim(41)
  t.same(firstsOf(path), [])
})

for (let step = 1; step <= 12; step++) {
  t.test(`is right about its file after step ${step} of a trim has failed`, async t => {
    const disk = createFaultyDisk(realDisk)
    const { log, path } = await aFileLog(t, disk)
    for (let n = 1; n <= 3; n++) await log.append(n, [one(n)])
    log.mark()
    await log.append(4, [one(4)])
    Object.assign(disk, { steps: 0, failAt: step })
    await log.trim(3).catch(() => {})
    Object.assign(disk, { failAt: 0 })
    await log.append(5, [one(5)])
    t.same(firstsOf(path).slice(-2), [4, 5])
    await log.trim(4)
    t.same(firstsOf(path).slice(-1), [5])
  })
}
