import t from 'tap'
import type { Test } from 'tap'
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../lib/base/clock.js'
import { type Disk, realDisk } from '../../lib/core/store/disk.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { createBelongingFile, type LocalCopy, openLocalCopy } from '../../lib/cluster/local-copy.js'
import { encodeTransaction, Trimmed } from '../../lib/core/store/redo.js'
import { readSettings, writeSetting } from '../../lib/core/store/tables/server.js'
import { createFaultyDisk } from '../core/store/stage.js'
import type { Call } from '../../lib/core/store/database.js'

const belonging = { cluster: 'main', history: 'h' }

interface Scene {
  directory: string
  warnings: string[]
  open(disk?: Disk): Promise<LocalCopy>
}

/** A directory with a database that belongs to a cluster. */
async function aScene(t: Test): Promise<Scene> {
  const directory = t.testdir()
  const warnings: string[] = []
  const open = (disk: Disk = realDisk) =>
    openLocalCopy({ directory, disk, clock: systemClock, warn: sentence => void warnings.push(sentence) })
  const copy = await open()
  await copy.upgrade()
  await copy.belong(belonging)
  await copy.close()
  return { directory, warnings, open }
}

const setting = (key: string, value: string): Call[] => [
  { sql: 'INSERT OR REPLACE INTO settings (key, value) VALUES (?, ?)', values: [key, value] }
]

t.test('applies lines, and has them after its process was killed', async t => {
  const { open } = await aScene(t)
  const copy = await open()
  t.same(copy.belonging, belonging)
  await copy.apply({ first: 1, transactions: [setting('a', '1'), setting('b', '1')] })
  await copy.apply({ first: 2, transactions: [setting('b', '1'), setting('c', '1')] })
  t.equal(copy.applied, 3, 'the part of a line that it has is left out')
  await t.rejects(copy.apply({ first: 5, transactions: [setting('d', '1')] }), Trimmed)
  const again = await open()
  t.equal(again.applied, 3)
  t.same(readSettings(again.memory.get()), { a: '1', b: '1', c: '1' })
  await again.close()
})

t.test('returns to what is durable after a refused write', async t => {
  const { open } = await aScene(t)
  const copy = await open()
  t.teardown(() => copy.close())
  const { text } = copy.memory.execute(tx => writeSetting(tx, 'accepted', '1'))
  await copy.record(1, [text as string])
  copy.memory.execute(tx => writeSetting(tx, 'refused', '1'))
  copy.memory.fail(new Error('the log said no'))
  t.same(readSettings(copy.memory.get()), { accepted: '1' })
  t.equal(copy.applied, 1)
})

t.test('starts from svc.db if a power cut damaged the redo log, and only in a cluster', async t => {
  const { directory, open, warnings } = await aScene(t)
  const copy = await open()
  await copy.apply({ first: 1, transactions: [setting('a', '1')] })
  await copy.checkpoint()
  await copy.apply({ first: 2, transactions: [setting('b', '1')] })
  await copy.apply({ first: 3, transactions: [setting('c', '1')] })
  const path = join(directory, 'svc.db.redo')
  const bytes = readFileSync(path)
  bytes.fill(0, 40, 60)
  writeFileSync(path, bytes)
  const again = await open()
  t.equal(again.applied, 1)
  t.match(warnings, [/reads these writes from etcd again/])
  await again.apply({ first: 2, transactions: [setting('b', '2'), setting('c', '2')] })
  t.same(readSettings(again.memory.get()), { a: '1', b: '2', c: '2' })
  await again.close()

  const alone = t.testdir({ alone: {} })
  const store = await openStore({ directory: join(alone, 'alone') })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  await store.close()
  truncateSync(join(alone, 'alone', 'svc.db.redo'), 5)
  const opening = openLocalCopy({ directory: join(alone, 'alone'), disk: realDisk, clock: systemClock, warn() {} })
  await t.rejects(opening, { code: 'redo_damaged' })
})

t.test('takes the place of another database, and belongs to its log only then', async t => {
  const source = await aScene(t)
  const from = await source.open()
  t.teardown(() => from.close())
  await from.apply({ first: 1, transactions: [setting('a', '1')] })
  await from.apply({ first: 2, transactions: [setting('b', '1')] })
  const directory = t.testdir({ own: {} })
  const store = await openStore({ directory: join(directory, 'own') })
  for (let n = 0; n < 5; n++) await store.write(tx => writeSetting(tx, `own${n}`, '1'))
  await store.close()
  const disk = createFaultyDisk(realDisk)
  const open = () => openLocalCopy({ directory: join(directory, 'own'), disk, clock: systemClock, warn() {} })
  const pieces = async function* () {
    const image = await from.image()
    yield* image.pieces
    image.release()
  }
  let isDone = false
  for (let step = 1; !isDone; step++) {
    const copy = await open()
    Object.assign(disk, { steps: 0, failAt: step, once: false })
    isDone = await copy.replace(pieces(), belonging).then(
      () => disk.steps < step,
      () => false
    )
    Object.assign(disk, { failAt: 0 })
    // The process dies here. Whatever happened, the next one sees either that it has to begin again, or a whole copy.
    const next = await open()
    if (next.belonging !== null) {
      t.same(readSettings(next.memory.get()), { a: '1', b: '1' }, `step ${step}`)
      t.equal(next.applied, 2)
      isDone = true
    }
    if (isDone) {
      await next.apply({ first: 3, transactions: [setting('c', '1')] })
      t.same(readSettings(next.memory.get()), { a: '1', b: '1', c: '1' })
    }
    await next.close()
  }
  t.ok(existsSync(join(directory, 'own', 'svc.db.cluster')))
})

t.test('tells those who follow tables that everything may have changed with an image', async t => {
  const { open } = await aScene(t)
  const copy = await open()
  t.teardown(() => copy.close())
  const other = await aScene(t)
  const from = await other.open()
  t.teardown(() => from.close())
  const followed = copy.memory.follow('settings')
  followed.take()
  const version = copy.memory.versions.of(['settings'])
  const image = await from.image()
  await copy.replace(
    (async function* () {
      yield* image.pieces
    })(),
    belonging
  )
  t.equal(followed.take(), null)
  t.not(copy.memory.versions.of(['settings']), version)
})

t.test('cannot lead while its disk fails, and can again when it is healed', async t => {
  const { open, warnings } = await aScene(t)
  const disk = createFaultyDisk(realDisk)
  const copy = await open(disk)
  t.teardown(() => copy.close())
  await copy.apply({ first: 1, transactions: [setting('a', '1')] })
  const { text } = copy.memory.execute(tx => writeSetting(tx, 'b', '1'))
  Object.assign(disk, { steps: 0, failAt: 1, once: false, code: 'ENOSPC' })
  await copy.record(2, [text as string])
  t.equal(copy.applied, 2, 'the write is durable in etcd')
  t.match(copy.fault, { code: 'ENOSPC' })
  t.match(warnings, [/stops leading until it can/])
  await t.rejects(copy.heal(), { code: 'ENOSPC' })
  Object.assign(disk, { failAt: 0 })
  await copy.heal()
  t.equal(copy.fault, null)
  await copy.apply({ first: 3, transactions: [setting('c', '1')] })
  const again = await open()
  t.same(readSettings(again.memory.get()), { a: '1', b: '1', c: '1' })
  await again.close()
})

t.test('refuses what is not a database', async t => {
  const { open } = await aScene(t)
  const copy = await open()
  t.teardown(() => copy.close())
  await copy.apply({ first: 1, transactions: [setting('a', '1')] })
  const nonsense = async function* () {
    yield Buffer.alloc(5000, 'x')
  }
  await t.rejects(copy.replace(nonsense(), belonging))
  t.same(readSettings(copy.memory.get()), { a: '1' })
  await copy.apply({ first: 2, transactions: [setting('b', encodeTransaction([]))] })
  t.equal(copy.applied, 2)
})

t.test('takes no database beyond its limit, and keeps its own', async t => {
  const { directory } = await aScene(t)
  const options = { directory, disk: realDisk, clock: systemClock, warn() {}, maxImageBytes: 100_000 }
  const copy = await openLocalCopy(options)
  t.teardown(() => copy.close())
  await copy.apply({ first: 1, transactions: [setting('a', '1')] })
  let sent = 0
  async function* endless() {
    for (;;) yield Buffer.alloc((sent += 4096) && 4096)
  }
  await t.rejects(copy.replace(endless(), belonging), { code: 'image_too_large' })
  t.ok(sent <= 104_096, 'it read no further')
  t.notOk(existsSync(join(directory, 'svc.db.image')), 'and left nothing on the disk')
  t.equal(readSettings(copy.memory.get())['a'], '1')
})

t.test('a data directory says to which log its database belongs', async t => {
  const directory = t.testdir()
  const file = createBelongingFile(directory, realDisk)
  t.equal(file.read(), null)
  const belonging = { cluster: 'c', history: 'h', seen: { sequence: 3, tag: 'abc' } }
  await file.write(belonging)
  t.same(createBelongingFile(directory, realDisk).read(), belonging)
  t.same(readdirSync(directory), ['svc.db.cluster'])
  await file.remove()
  t.same(readdirSync(directory), [])
})
