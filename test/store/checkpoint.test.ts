import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { realDisk } from '../../lib/store/disk.js'
import type { Disk } from '../../lib/store/disk.js'
import { openStore } from '../../lib/store/database.js'
import { writeSetting } from '../../lib/store/tables/settings.js'
import { onDisk } from './stage.js'
import { until } from '../support/until.js'

t.test('a checkpoint folds every write into svc.db, and the redo log begins anew', async t => {
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

t.test('writes go on while svc.db is written, and none of them is lost when the redo log is exchanged', async t => {
  const directory = t.testdir()
  let during = 0
  const slow: Disk = {
    ...realDisk,
    async rename(from, to) {
      // svc.db is on its way: some writes are made durable now, and some are waiting when the log is exchanged.
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
  t.same(Object.keys(settings).sort(), ['after', 'before', 'during0', 'during1', 'during2', 'during3', 'during4', 'waiting'])
})

t.test('a long redo log is folded in by itself', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory, foldBytes: 20_000 })
  t.teardown(() => store.close())
  for (let n = 0; n < 50; n++) await store.write(tx => writeSetting(tx, 'k', String(n).repeat(1000)))
  // The redo log is begun anew a moment after svc.db.
  await until(async () => (await onDisk(directory)).lines < 50)
  const { held, lines, settings } = await onDisk(directory)
  t.ok(held > 0 && lines < 50, `${held} are held, ${lines} are in the log`)
  t.equal(settings['k'], '49'.repeat(1000))
})

t.test('when no write comes for a while, the redo log is folded in', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory, idleMs: 30 })
  t.teardown(() => store.close())
  await store.write(tx => writeSetting(tx, 'a', '1'))
  await until(async () => (await onDisk(directory)).lines === 0)
  t.match(await onDisk(directory), { held: 1, lines: 0 })
})

t.test('a start folds what a kill left in the redo log, and writes nothing where there is nothing', async t => {
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

t.test('a checkpoint in the background that fails is told, and tried again later', async t => {
  const directory = t.testdir()
  const warnings: string[] = []
  let isFull = false
  const disk: Disk = {
    ...realDisk,
    create: path => (isFull ? Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })) : realDisk.create(path))
  }
  const store = await openStore({ directory, disk, foldBytes: 5000, warn: sentence => warnings.push(sentence) })
  t.teardown(() => store.close())
  isFull = true
  for (let n = 0; n < 20; n++) await store.write(tx => writeSetting(tx, 'k', String(n).repeat(1000)))
  await until(() => warnings.length > 0)
  t.match(warnings[0], /could not write ".*svc\.db" anew/)
  t.equal(store.state().ok, true)
  isFull = false
  for (let n = 0; n < 20; n++) await store.write(tx => writeSetting(tx, 'k', String(n).repeat(1000)))
  await until(async () => (await onDisk(directory)).held > 0)
  t.ok((await onDisk(directory)).held > 0)
})
