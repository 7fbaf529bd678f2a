import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { realDisk, type Disk } from '../../lib/store/disk.js'
import { openStore } from '../../lib/store/durable-store.js'
import { createMemory } from '../../lib/store/memory.js'
import { loadSqlite } from '../../lib/store/sqlite.js'
import { writeSetting } from '../../lib/store/tables/settings.js'
import { onDisk } from './stage.js'
import { until } from '../support/until.js'

t.test('writes everything to svc.db in a checkpoint and starts a new redo log', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  t.teardown(() => store.close())
  for (let n = 0; n < 10; n++) await store.write(tx => writeSetting(tx, `k${n}`, 'x'))
  t.match(await onDisk(directory), { held: 0, lines: 10 })
  await store.checkpoint()
  t.match(await onDisk(directory), { held: 10, lines: 0 })
  await store.write(tx => writeSetting(tx, 'k10', 'x'))
  const { settings, lines } = await onDisk(directory)
  t.equal(Object.keys(settings).length, 11)
  t.equal(lines, 1)
})

t.test('takes two images of the same moment', async t => {
  const store = await openStore({ directory: t.testdir(), clock: { now: () => 1_700_000_000_000 } })
  t.teardown(() => store.close())
  await store.write(tx => writeSetting(tx, 'a', 'x'))
  const stamps = []
  for (let count = 0; count < 2; count++) {
    const image = await store.image()
    const copy = createMemory(await loadSqlite(), Buffer.concat(image.pieces))
    stamps.push(copy.get('SELECT sequence, writtenAt FROM store'))
    copy.close()
    image.release()
  }
  t.same(stamps, Array(2).fill({ sequence: 1, writtenAt: '2023-11-14T22:13:20.000Z' }))
})

t.test('loses no write that arrives while a checkpoint is written', async t => {
  const directory = t.testdir()
  let during = 0
  const slow: Disk = {
    ...realDisk,
    async rename(from, to) {
      // svc.db is being written: some writes become durable now, and some are waiting when the log is replaced.
      if (to.endsWith('svc.db') && during === 0) {
        for (; during < 5; during++) await store.write(tx => writeSetting(tx, `during${during}`, 'x'))
        void store.write(tx => writeSetting(tx, 'waiting', 'x'))
      }
      await realDisk.rename(from, to)
    }
  }
  const opened = await openStore({ directory })
  await opened.close()
  const store = await openStore({ directory, disk: slow })
  t.teardown(() => store.close())
  await store.write(tx => writeSetting(tx, 'before', 'x'))
  await store.checkpoint()
  await store.write(tx => writeSetting(tx, 'after', 'x'))
  const { settings, held } = await onDisk(directory)
  t.equal(held, 1)
  t.same(Object.keys(settings).sort(), [
    'after',
    'before',
    'during0',
    'during1',
    'during2',
    'during3',
    'during4',
    'waiting'
  ])
})

t.test('begins a checkpoint when the redo log is long', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory, foldBytes: 20_000 })
  t.teardown(() => store.close())
  for (let n = 0; n < 50; n++) await store.write(tx => writeSetting(tx, 'k', String(n).repeat(1000)))
  // The new redo log is written a moment after svc.db.
  await until(async () => (await onDisk(directory)).lines < 50)
  const { held, lines, settings } = await onDisk(directory)
  t.ok(held > 0 && lines < 50, `${held} are in svc.db, ${lines} are in the log`)
  t.equal(settings['k'], '49'.repeat(1000))
})

t.test('begins a checkpoint after a while without writes', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory, idleMs: 30 })
  t.teardown(() => store.close())
  await store.write(tx => writeSetting(tx, 'a', '1'))
  await until(async () => (await onDisk(directory)).lines === 0)
  t.match(await onDisk(directory), { held: 1, lines: 0 })
})

t.test('writes a checkpoint at the start after a kill, and none if the redo log is empty', async t => {
  const directory = t.testdir()
  const killed = await openStore({ directory })
  await killed.write(tx => writeSetting(tx, 'a', '1'))
  const started = await openStore({ directory })
  await until(async () => (await onDisk(directory)).lines === 0)
  t.match(await onDisk(directory), { held: 1, lines: 0 })
  await started.close()
  const names = ['svc.db', 'svc.db.redo'].map(name => join(directory, name))
  const before = names.map(name => statSync(name))
  const again = await openStore({ directory })
  await sleep(50)
  await again.close()
  const after = names.map(name => statSync(name))
  t.same(
    after.map(({ mtimeMs, ino }) => ({ mtimeMs, ino })),
    before.map(({ mtimeMs, ino }) => ({ mtimeMs, ino }))
  )
})

t.test('warns about a failed checkpoint in the background and retries later', async t => {
  const directory = t.testdir()
  const warnings: string[] = []
  let isFull = false
  const disk: Disk = {
    ...realDisk,
    create: path =>
      isFull ? Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })) : realDisk.create(path)
  }
  const store = await openStore({ directory, disk, foldBytes: 5000, warn: sentence => warnings.push(sentence) })
  t.teardown(() => store.close())
  isFull = true
  for (let n = 0; n < 20; n++) await store.write(tx => writeSetting(tx, 'k', String(n).repeat(1000)))
  await until(() => warnings.length > 0)
  t.match(warnings[0], /Cannot write a checkpoint to ".*svc\.db"/)
  t.equal(store.state().ok, true)
  isFull = false
  for (let n = 0; n < 20; n++) await store.write(tx => writeSetting(tx, 'k', String(n).repeat(1000)))
  await until(async () => (await onDisk(directory)).held > 0)
  t.ok((await onDisk(directory)).held > 0)
})
