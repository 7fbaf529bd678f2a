import t from 'tap'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Disk, realDisk } from '../../../lib/core/store/disk.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { createMemory, loadSqlite } from '../../../lib/core/store/memory.js'
import { encodeHeader, encodeLine, encodeTransaction } from '../../../lib/core/store/redo.js'
import { schemaVersion } from '../../../lib/core/store/schema.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'
import { until } from '../../support/until.js'
import { onDisk, withoutSqlite3 } from './stage.js'

interface Scene {
  testdir(): string
}

/** Creates a data directory with writes in svc.db and `unfolded` more in the redo log, as after a kill. */
async function aDirectory(t: Scene, unfolded = 0): Promise<string> {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await store.write(tx => {
    for (let n = 0; n < 200; n++) writeSetting(tx, `folded${n}`, 'x'.repeat(100))
  })
  await store.close()
  if (unfolded === 0) return directory
  const log = join(directory, 'svc.db.redo')
  const lines = Array.from({ length: unfolded }, (_, n) => line(2 + n, n))
  writeFileSync(log, Buffer.concat([encodeHeader(1), ...lines, Buffer.alloc(1000)]))
  return directory
}

function line(number: number, n: number): Buffer {
  const sql = 'INSERT INTO settings (key, value) VALUES (?, ?)'
  return encodeLine(number, [encodeTransaction([{ sql, values: [`logged${n}`, 'y'] }])])
}

/** Returns everything in the directory: names, bytes, and times of the last write. */
function snapshot(directory: string): unknown {
  return readdirSync(directory)
    .sort()
    .map(name => [
      name,
      readFileSync(join(directory, name)).toString('base64'),
      statSync(join(directory, name)).mtimeMs
    ])
}

/** Changes a header field directly: the fields have fixed offsets, so no other SQLite program is needed. */
function poke(file: string, offset: number, bytes: number[]): void {
  const content = readFileSync(file)
  content.set(bytes, offset)
  writeFileSync(file, content)
}

interface Damage {
  what: string
  code: string
  damage(file: string, log: string): void
}

const damages: Damage[] = [
  { what: 'an empty svc.db', code: 'database_damaged', damage: file => writeFileSync(file, '') },
  {
    what: 'a svc.db that contains text',
    code: 'database_damaged',
    damage: file => writeFileSync(file, 'not a database\n'.repeat(1000))
  },
  { what: 'a svc.db of zeros', code: 'database_damaged', damage: file => writeFileSync(file, Buffer.alloc(8192)) },
  { what: 'a changed magic', code: 'database_damaged', damage: file => poke(file, 3, [0]) },
  {
    what: 'a svc.db cut at half',
    code: 'database_damaged',
    damage: file => truncateSync(file, statSync(file).size >> 1)
  },
  {
    what: 'a svc.db without its last byte',
    code: 'database_damaged',
    damage: file => truncateSync(file, statSync(file).size - 1)
  },
  {
    what: 'an overwritten first page',
    code: 'database_damaged',
    damage: file => poke(file, 100, Array(2000).fill(0xa5))
  },
  {
    what: 'an overwritten inner page',
    code: 'database_damaged',
    damage: file => poke(file, statSync(file).size - 8192, Array(4096).fill(0xa5))
  },
  { what: 'the database of another program', code: 'database_damaged', damage: file => poke(file, 68, [0, 0, 0, 9]) },
  { what: 'a newer schema', code: 'database_newer', damage: file => poke(file, 60, [0, 0, 0, schemaVersion + 1]) },
  { what: 'a missing svc.db', code: 'database_missing', damage: file => rmSync(file) },
  { what: 'the WAL of another program', code: 'database_in_use', damage: file => writeFileSync(`${file}-wal`, 'wal') },
  {
    what: 'the journal of another program',
    code: 'database_in_use',
    damage: file => writeFileSync(`${file}-journal`, 'journal')
  },
  {
    what: 'a damaged line in the middle',
    code: 'redo_damaged',
    damage: (_, log) => poke(log, encodeHeader(1).length + 40, [0])
  },
  { what: 'an empty redo log', code: 'redo_damaged', damage: (_, log) => writeFileSync(log, '') },
  {
    what: 'a redo log whose first line is missing',
    code: 'redo_damaged',
    damage: (_, log) => writeFileSync(log, Buffer.concat([encodeHeader(1), line(3, 1)]))
  },
  {
    what: 'a redo log that begins after a newer svc.db',
    code: 'database_outdated',
    damage: (_, log) => writeFileSync(log, encodeHeader(2))
  },
  {
    what: 'a redo log that does not fit the tables',
    code: 'redo_damaged',
    damage: (_, log) => writeFileSync(log, Buffer.concat([encodeHeader(1), line(2, 0), line(3, 0)]))
  }
]

for (const { what, code, damage } of damages) {
  t.test(`refuses ${what} with ${code} and changes nothing`, async t => {
    const directory = await aDirectory(t, 3)
    damage(join(directory, 'svc.db'), join(directory, 'svc.db.redo'))
    const before = snapshot(directory)
    await t.rejects(openStore({ directory }), {
      name: 'Refusal',
      code,
      message: /^Cannot open the database: ".*svc\.db/
    })
    t.same(snapshot(directory), before)
  })
}

t.test('replays the redo log over svc.db and ignores a torn last line', async t => {
  const directory = await aDirectory(t, 3)
  const log = join(directory, 'svc.db.redo')
  const content = readFileSync(log)
  content.set(line(5, 3).subarray(0, 60), content.length - 1000)
  writeFileSync(log, content)
  const store = await openStore({ directory })
  t.equal(Object.keys(readSettings(store)).filter(key => key.startsWith('logged')).length, 3)
  await store.write(tx => writeSetting(tx, 'next', 'z'))
  await store.close()
  const again = await openStore({ directory })
  t.match(readSettings(again), { logged2: 'y', next: 'z' })
  await again.close()
})

t.test('skips lines that svc.db already includes, also in part', async t => {
  const directory = await aDirectory(t)
  const sql = 'INSERT INTO settings (key, value) VALUES (?, ?)'
  const transactions = ['folded0', 'fresh'].map(key => encodeTransaction([{ sql, values: [key, 'again'] }]))
  writeFileSync(join(directory, 'svc.db.redo'), Buffer.concat([encodeHeader(0), encodeLine(1, transactions)]))
  const store = await openStore({ directory })
  t.match(readSettings(store), { folded0: 'x'.repeat(100), fresh: 'again' })
  await store.close()
})

t.test('opens a svc.db without a redo log, as from a copy', async t => {
  const directory = await aDirectory(t)
  rmSync(join(directory, 'svc.db.redo'))
  const store = await openStore({ directory })
  t.equal(Object.keys(readSettings(store)).length, 200)
  await store.close()
})

t.test('opens a svc.db that sqlite3 has changed, also in WAL mode', { skip: withoutSqlite3() }, async t => {
  const directory = await aDirectory(t)
  execFileSync('sqlite3', [
    join(directory, 'svc.db'),
    "PRAGMA journal_mode = WAL; UPDATE settings SET value = 'by hand' WHERE key = 'folded0'"
  ])
  const store = await openStore({ directory })
  t.equal(readSettings(store)['folded0'], 'by hand')
  await store.write(tx => writeSetting(tx, 'folded1', 'by svc'))
  await store.close()
  t.equal(
    execFileSync('sqlite3', [join(directory, 'svc.db'), "SELECT value FROM settings WHERE key = 'folded1'"]).toString(),
    'by svc\n'
  )
})

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
  const store = await openStore({ directory, disk, foldBytes: 5000, idleMs: 200, warn: said => warnings.push(said) })
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
