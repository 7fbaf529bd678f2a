import t from 'tap'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import type { DeploymentStep } from '../../../lib/model/deployment.js'
import type { Transaction } from '../../../lib/core/store/database.js'
import { ownedDisk, realDisk } from '../../../lib/core/store/disk.js'
import { createVerification, openStore } from '../../../lib/core/store/durable-store.js'
import { createMemory, loadSqlite } from '../../../lib/core/store/memory.js'
import { schemaVersion, versionOf } from '../../../lib/core/store/schema.js'
import { findDeployment, insertDeployment, liveDeployment } from '../../../lib/core/store/tables/deployments.js'
import { findProject, insertLabel, insertProject } from '../../../lib/core/store/tables/projects.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'
import { olderDatabase, olderVersion } from '../../support/older-database.js'
import {
  aDeployment,
  aLabel,
  aProject,
  aStore,
  countedSummaries,
  createFaultyDisk,
  summariesOf,
  withoutSqlite3
} from './stage.js'

t.test('runs the work of a write at once and resolves with its result', async t => {
  const store = await aStore(t)
  const written = store.write(tx => (writeSetting(tx, 'a', '1'), 'result'))
  t.same(readSettings(store), { a: '1' })
  t.equal(await written, 'result')
})

t.test('rejects with the error of the work and leaves no changes', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  const failure = new Error('no')
  await t.rejects(
    store.write(tx => {
      writeSetting(tx, 'a', '1')
      throw failure
    }),
    failure
  )
  await t.rejects(
    store.write(tx => tx.run('INSERT INTO settings (key) VALUES (?)', 'b')),
    /NOT NULL/
  )
  t.same(readSettings(store), {})
  t.same(store.state(), { ok: true, path: join(directory, 'svc.db'), error: null })
  await store.write(tx => writeSetting(tx, 'c', '3'))
  await store.close()
  const again = await openStore({ directory })
  t.same(readSettings(again), { c: '3' })
  await again.close()
})

t.test('does not replay a statement that failed and was caught', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await store.write(tx => {
    writeSetting(tx, 'a', '1')
    t.throws(() => tx.run('INSERT INTO settings (key, value) VALUES (?, ?)', 'a', '2'), /UNIQUE/)
    writeSetting(tx, 'b', '2')
  })
  const again = await openStore({ directory })
  t.same(readSettings(again), { a: '1', b: '2' })
  await again.close()
  await store.close()
})

t.test('throws for asynchronous work, a write inside a write, and a transaction that has ended', async t => {
  const store = await aStore(t)
  await t.rejects(
    store.write(async tx => writeSetting(tx, 'a', '1')),
    /Cannot wait inside a write/
  )
  let inner: Promise<unknown> = Promise.resolve()
  let leaked: Transaction | undefined
  await store.write(tx => {
    leaked = tx
    inner = store.write(() => {})
    inner.catch(() => {})
  })
  await t.rejects(inner, /inside another write/)
  t.throws(() => leaked?.run('DELETE FROM settings'), /has ended/)
  t.throws(() => leaked?.get('SELECT 1'), /has ended/)
  t.throws(() => store.get('DELETE FROM settings RETURNING key'), /Not a read-only statement/)
  t.same(readSettings(store), {})
})

t.test('waits for earlier writes when a write changes nothing', async t => {
  const store = await aStore(t)
  const order: string[] = []
  await Promise.all([
    store.write(tx => writeSetting(tx, 'a', '1')).then(() => order.push('write')),
    store.write(tx => tx.get('SELECT 1')).then(() => order.push('read'))
  ])
  t.same(order, ['write', 'read'])
})

t.test('preserves values of every kind in a replay', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  const values = ['', '\0\n"漢🙂', '\ud800', 2 ** 53 - 1, -0.1, 5e-324, new Uint8Array([0, 10, 255]), new Uint8Array()]
  await store.write(tx =>
    values.forEach((value, n) => void tx.run('INSERT INTO settings VALUES (?, ?)', `v${n}`, value))
  )
  const sql = 'SELECT key, value, typeof(value) AS type FROM settings ORDER BY key'
  const again = await openStore({ directory })
  t.strictSame(again.all(sql), store.all(sql))
  await again.close()
  await store.close()
})

t.test('refuses writes after closing, and waits for writes in progress', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  const written = store.write(tx => writeSetting(tx, 'a', '1'))
  const closed = store.close()
  await t.rejects(
    store.write(tx => writeSetting(tx, 'b', '1')),
    { code: 'shutting_down' }
  )
  await written
  await closed
  t.equal(store.close(), closed, 'closing again returns the same promise')
  t.throws(() => readSettings(store), { code: 'database_unavailable' })
  const again = await openStore({ directory })
  t.same(readSettings(again), { a: '1' })
  await again.close()
})

t.test('refuses a write on a full disk with a message, and reports the failure until a write succeeds', async t => {
  const disk = createFaultyDisk(realDisk)
  const store = await aStore(t, { disk })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  Object.assign(disk, { steps: 0, failAt: 1, code: 'ENOSPC' })
  const refusal = (await store.write(tx => writeSetting(tx, 'a', '2')).catch(error => error)) as Refusal
  t.match(refusal, {
    name: 'Refusal',
    kind: 'unavailable',
    code: 'disk_full',
    message: 'The change was not saved: no space left on device'
  })
  t.match(refusal.cause, { code: 'ENOSPC' })
  t.match(store.state(), { ok: false, error: 'no space left on device' })
  t.same(readSettings(store), { a: '1' }, 'memory is what the disk holds')
  await store.write(tx => writeSetting(tx, 'a', '3'))
  t.match(store.state(), { ok: true, error: null })
})

t.test('accepts a write without changes on a full disk', async t => {
  const disk = createFaultyDisk(realDisk)
  const store = await aStore(t, { disk })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  Object.assign(disk, { steps: 0, failAt: 1, once: false, code: 'ENOSPC' })
  const refused = store.write(tx => writeSetting(tx, 'a', '2'))
  await t.rejects(
    store.write(tx => readSettings(tx)),
    { code: 'disk_full' },
    'it saw the change that was not saved'
  )
  await t.rejects(refused, { code: 'disk_full' })
  disk.failAt = 0
  t.same(await store.write(tx => readSettings(tx)), { a: '1' })
  const image = await store.image()
  image.release()
})

t.test('treats an exceeded disk quota like a full disk and names it', async t => {
  const disk = createFaultyDisk(realDisk)
  const store = await aStore(t, { disk })
  Object.assign(disk, { steps: 0, failAt: 1, code: `Unknown system error -${constants.errno.EDQUOT}` })
  const message = 'The change was not saved: disk quota exceeded'
  await t.rejects(
    store.write(tx => writeSetting(tx, 'a', '2')),
    { code: 'disk_full', message }
  )
})

t.test('recovers with a read after the disk could not be read', async t => {
  let nowMs = 1_000_000
  const disk = createFaultyDisk(realDisk)
  const store = await aStore(t, { disk, clock: { now: () => nowMs } })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  Object.assign(disk, { steps: 0, failAt: 1, once: false })
  await t.rejects(
    store.write(tx => writeSetting(tx, 'a', '2')),
    { code: 'write_failed' }
  )
  t.throws(() => readSettings(store), { code: 'database_unavailable' })
  const { steps } = disk
  t.throws(() => readSettings(store), { code: 'database_unavailable' })
  t.equal(disk.steps, steps, 'not with every read')
  disk.failAt = 0
  nowMs += 1000
  t.same(readSettings(store), { a: '1' })
  await store.write(tx => writeSetting(tx, 'a', '3'))
  t.equal(store.state().ok, true)
})

t.test('refuses reads while the disk cannot be read, until a write recovers', async t => {
  const disk = createFaultyDisk(realDisk)
  const store = await aStore(t, { disk })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  Object.assign(disk, { steps: 0, failAt: 1, once: false })
  await t.rejects(
    store.write(tx => writeSetting(tx, 'a', '2')),
    { code: 'write_failed' }
  )
  t.throws(() => readSettings(store), { code: 'database_unavailable' })
  await t.rejects(
    store.write(tx => writeSetting(tx, 'a', '2')),
    { code: 'database_unavailable' }
  )
  t.equal(store.state().ok, false)
  disk.failAt = 0
  await store.write(tx => writeSetting(tx, 'b', '3'))
  t.same(readSettings(store), { a: '1', b: '3' })
  t.equal(store.state().ok, true)
})

t.test(
  'creates files for the owner only and leaves no others',
  { skip: process.platform === 'win32' && 'Windows has no modes' },
  async t => {
    const directory = t.testdir()
    const store = await openStore({ directory })
    await store.write(tx => writeSetting(tx, 'a', '1'))
    await store.close()
    for (const name of ['svc.db', 'svc.db.redo']) t.equal(statSync(join(directory, name)).mode & 0o777, 0o600, name)
    for (const name of ['svc.db.tmp', 'svc.db.redo.tmp']) t.notOk(existsSync(join(directory, name)), name)
  }
)

t.test('writes a svc.db that the sqlite3 program can open', { skip: withoutSqlite3() }, async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await store.write(tx => writeSetting(tx, 'a', 'from svc'))
  await store.checkpoint()
  const ask = (sql: string) => execFileSync('sqlite3', [join(directory, 'svc.db'), sql]).toString()
  t.equal(ask('PRAGMA integrity_check; SELECT value FROM settings'), 'ok\nfrom svc\n', 'while the store is open')
  await store.close()
  t.equal(ask('SELECT count(*) FROM projects'), '0\n')
})

t.test('refuses a checkpoint on a full disk and loses nothing', async t => {
  const directory = t.testdir()
  const disk = createFaultyDisk(realDisk)
  const warnings: string[] = []
  const store = await openStore({ directory, disk, warn: sentence => warnings.push(sentence) })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  Object.assign(disk, { steps: 0, failAt: 1, once: false, code: 'ENOSPC' })
  await t.rejects(store.checkpoint(), { code: 'ENOSPC' })
  t.equal(store.state().ok, true)
  await store.close()
  t.match(warnings, [/Cannot write a checkpoint to .* at shutdown/])
  const again = await openStore({ directory })
  t.same(readSettings(again), { a: '1' })
  await again.close()
})

/** Returns a data directory of the previous schema after a kill: `a` is in svc.db, `b` in its redo log. */
async function olderHome(directory: string): Promise<void> {
  const store = await openStore({ directory })
  await store.write(tx => {
    writeSetting(tx, 'a', '1')
    insertLabel(tx, 'tag', aLabel())
    insertProject(tx, aProject({ tagIds: ['tag_a'] }))
    insertProject(tx, aProject({ id: 'proj_b' }))
    insertDeployment(tx, aDeployment())
    insertDeployment(tx, aDeployment({ id: 'dep_b', status: 'failed', startTime: '2026-01-03T00:00:00.000Z' }))
  })
  await store.checkpoint()
  await store.write(tx => writeSetting(tx, 'b', '2'))
  const files = ['svc.db', 'svc.db.redo'].map(name => [name, readFileSync(join(directory, name))] as const)
  await store.close()
  for (const [name, bytes] of files) writeFileSync(join(directory, name), bytes)
  await olderDatabase(join(directory, 'svc.db'))
}

async function versionIn(path: string): Promise<number> {
  const memory = createMemory(await loadSqlite(), readFileSync(path))
  try {
    return versionOf(memory)
  } finally {
    memory.close()
  }
}

t.test('keeps a complete copy of the old database in an upgrade', async t => {
  const directory = t.testdir({})
  await olderHome(directory)
  const store = await openStore({ directory })
  t.strictSame(readSettings(store), { a: '1', b: '2' })
  await store.close()
  t.equal(await versionIn(join(directory, 'svc.db')), schemaVersion)
  const kept = join(directory, `svc.db.schema-${olderVersion}`)
  t.equal(await versionIn(kept), olderVersion)
  const memory = createMemory(await loadSqlite(), readFileSync(kept))
  t.teardown(() => memory.close())
  t.strictSame(readSettings(memory), { a: '1', b: '2' }, 'with what the redo log had')
  t.equal(memory.pragma('integrity_check'), 'ok')

  await t.test('has nothing to do at the next start', async t => {
    const before = readFileSync(kept)
    await (await openStore({ directory })).close()
    t.ok(readFileSync(kept).equals(before))
  })
})

t.test('maintains summaries of deployments and tags after an upgrade', async t => {
  const directory = t.testdir({})
  await olderHome(directory)
  const store = await openStore({ directory })
  t.teardown(() => store.close())
  t.same(summariesOf(store), countedSummaries(store))
  t.match(findProject(store, 'proj_a'), {
    status: 'failed',
    lastDeployAt: '2026-01-03T00:00:00.000Z',
    tagIds: ['tag_a']
  })
  t.match(findProject(store, 'proj_b'), { status: 'idle', lastDeployAt: null, tagIds: [] })
})

t.test('completes an interrupted upgrade at the next start, whatever step failed', async t => {
  const top = t.testdir({ old: {} })
  await olderHome(join(top, 'old'))
  let isThrough = false
  let failAt = 0
  while (!isThrough) {
    failAt++
    const directory = join(top, `home-${failAt}`)
    cpSync(join(top, 'old'), directory, { recursive: true })
    const disk = Object.assign(createFaultyDisk(realDisk), { failAt, once: false })
    const store = await openStore({ directory, disk }).catch(() => null)
    isThrough = store !== null
    // The state after a kill: nothing more is written.
    disk.failAt = disk.failAt || 1
    const again = await openStore({ directory })
    t.strictSame(readSettings(again), { a: '1', b: '2' }, `step ${failAt}`)
    await again.write(tx => writeSetting(tx, 'c', '3'))
    await again.close()
    t.equal(await versionIn(join(directory, 'svc.db')), schemaVersion)
    t.ok(existsSync(join(directory, `svc.db.schema-${olderVersion}`)), 'the old one is kept')
    t.notOk(readdirSync(directory).some(name => name.endsWith('.tmp')))
    if (store !== null) await store.close()
  }
  t.ok(failAt > 8, `${failAt} steps`)
})

t.test('refuses an upgrade on a full disk and keeps the old database', async t => {
  const directory = t.testdir({})
  await olderHome(directory)
  const before = readFileSync(join(directory, 'svc.db'))
  const disk = Object.assign(createFaultyDisk(realDisk), { failAt: 1, once: false, code: 'ENOSPC' })
  await t.rejects(openStore({ directory, disk }))
  t.ok(readFileSync(join(directory, 'svc.db')).equals(before))
})

t.test('numbers the changes of a target in an upgrade, in order of arrival and whatever their status', async t => {
  const directory = t.testdir({})
  const store = await openStore({ directory })
  const at = '2026-01-01T00:00:00.000Z'
  const extracted = (status: 'success' | 'failed'): DeploymentStep[] => [
    { name: 'extract', status, startedAt: at, endedAt: at }
  ]
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id, deployPath: `/srv/${id}`, token: id }))
    insertDeployment(
      tx,
      aDeployment({ id: 'dep_1', steps: extracted('success'), startTime: '2026-01-09T00:00:00.000Z' })
    )
    insertDeployment(tx, aDeployment({ id: 'dep_2', steps: extracted('failed') }))
    insertDeployment(tx, aDeployment({ id: 'dep_3', status: 'failed', steps: extracted('success') }))
    insertDeployment(tx, aDeployment({ id: 'dep_4', projectId: 'proj_b', steps: extracted('success') }))
    insertDeployment(tx, aDeployment({ id: 'dep_5', steps: [] }))
  })
  await store.close()
  await olderDatabase(join(directory, 'svc.db'))
  const upgraded = await openStore({ directory })
  t.teardown(() => upgraded.close())
  t.strictSame(
    ['dep_1', 'dep_2', 'dep_3', 'dep_4', 'dep_5'].map(id => findDeployment(upgraded, id)?.placed),
    [1, null, 2, 1, null]
  )
  t.equal(liveDeployment(upgraded, 'proj_a')?.id, 'dep_3')
})

/* What it means for a store is in page-check-thread.test.ts. */

t.test('checks a file once, and remembers its fault', async t => {
  const path = join(t.testdir(), 'svc.db')
  writeFileSync(path, Buffer.alloc(10_000, 'x'))
  const warnings: string[] = []
  const pages = createVerification({ path, isChecked: false, warn: sentence => void warnings.push(sentence) })
  t.equal(pages.damage, null)
  const checks = await Promise.allSettled([pages.verified(), pages.verified()])
  t.match(checks, [{ reason: { code: 'database_damaged' } }, { reason: { code: 'database_damaged' } }])
  t.equal(warnings.length, 1)
  t.match(pages.damage, { code: 'database_damaged' })
  pages.stop()
})

t.test('does not look at a file that was checked before', async t => {
  const pages = createVerification({ path: '/nowhere', isChecked: true, warn: t.fail })
  await pages.verified()
  t.equal(pages.damage, null)
  pages.stop()
})

/** Opens a store in the given directory, reads from it and closes it, in a process. Returns the functions of SQLite that V8 compiled. */
function compiledBy(directory: string): string[] {
  const program = `
    const [{ openStore }, { listProjects }] = await Promise.all(process.argv.slice(1, 3).map(url => import(url)))
    const store = await openStore({ directory: process.argv[3] })
    listProjects(store)
    // A function that is hot by now is optimised in the meantime.
    await new Promise(resolve => setTimeout(resolve, 50))
    await store.close()`
  const modules = ['durable-store.js', 'tables/projects.js'].map(
    name => new URL(`../../../lib/core/store/${name}`, import.meta.url).href
  )
  const words = ['--trace-wasm-compilation-times', '--input-type=module', '-e', program, ...modules, directory]
  const said = execFileSync(process.execPath, words, { encoding: 'utf8' })
  return said.split('\n').filter(line => line.startsWith('Compiled function'))
}

t.test('a start makes V8 optimise nothing, and opens the tables that a start without files has made', async t => {
  const directory = t.testdir()
  for (const what of ['without files', 'with files', 'with files again']) {
    const compiled = compiledBy(directory)
    t.ok(compiled.length > 100, `${what}: V8 names what it compiles`)
    t.same(
      compiled.filter(line => line.includes('TurboFan')),
      [],
      what
    )
  }
  // Only the first new database of a process has a module of its own, and this process has made others.
  const further = await mkdtemp(join(directory, 'further-'))
  await (await openStore({ directory: further })).close()
  const tablesOf = async (path: string): Promise<unknown> => {
    const memory = createMemory(await loadSqlite(), readFileSync(join(path, 'svc.db')))
    t.teardown(() => memory.close())
    return memory.all('SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name')
  }
  t.same(await tablesOf(directory), await tablesOf(further), 'with migrations of the module that stays')
})

t.test('writes nothing once its directory is another one, and continues when it is back', async t => {
  const top = t.testdir({ home: {} })
  const [directory, moved] = [join(top, 'home'), join(top, 'moved')]
  const inode = statSync(directory).ino
  const refused = new Refusal('unavailable', 'database_unavailable', 'moved')
  const check = (): void => {
    if (!existsSync(directory) || statSync(directory).ino !== inode) throw refused
  }
  const warnings: string[] = []
  const store = await openStore({ directory, disk: ownedDisk(check), warn: line => void warnings.push(line) })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  renameSync(directory, moved)
  mkdirSync(directory)
  const other = await openStore({ directory })
  await other.write(tx => writeSetting(tx, 'other', '1'))
  await t.rejects(
    store.write(tx => writeSetting(tx, 'b', '2')),
    refused
  )
  t.match(store.state(), { ok: false, error: 'moved' })
  await t.rejects(store.checkpoint(), refused)
  t.same(readSettings(store), { a: '1' }, 'it is still readable')
  await other.close()
  const again = await openStore({ directory })
  t.same(readSettings(again), { other: '1' }, 'the other database is as its server left it')
  await again.close()

  renameSync(directory, join(top, 'other'))
  renameSync(moved, directory)
  await store.write(tx => writeSetting(tx, 'b', '2'))
  t.match(store.state(), { ok: true })
  renameSync(directory, moved)
  await store.close()
  t.notOk(existsSync(directory))
  t.match(warnings, [/Cannot write a checkpoint .*: moved\. No write is lost/])
  const last = await openStore({ directory: moved })
  t.same(readSettings(last), { a: '1', b: '2' })
  await last.close()
})
