import t from 'tap'
import { systemActor as actor } from '../../../lib/model/audit.js'
import { createVersions, keepReads, LiveMemory } from '../../../lib/core/store/live-memory.js'
import { createMemory, type Memory, loadSqlite } from '../../../lib/core/store/memory.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'
import { openStage } from '../../support/store.js'

/** Returns a memory with one table; `recover` creates another, unless the disk fails. */
async function aLiveMemory() {
  const sqlite = await loadSqlite()
  const world = { nowMs: 0, isBroken: false }
  const recover = (): Memory => {
    if (world.isBroken) throw new Error('the disk fails')
    const memory = createMemory(sqlite, null)
    memory.script('CREATE TABLE t (a)')
    return memory
  }
  return { world, memory: new LiveMemory({ memory: recover(), recover, clock: { now: () => world.nowMs } }) }
}

t.test("increments the revision and the table's version, and returns text for the redo log", async t => {
  const { memory } = await aLiveMemory()
  const [revision, version] = [memory.revision, memory.versions.of(['t'])]
  const { result, text } = memory.execute(tx => tx.run('INSERT INTO t VALUES (?)', 1))
  t.equal(result, 1)
  t.equal(text, '[["INSERT INTO t VALUES (?)",1]]')
  t.not(memory.revision, revision)
  t.not(memory.versions.of(['t']), version)
  t.equal(memory.execute(tx => tx.get('SELECT a FROM t')).text, null)
})

t.test('removes a write that is not durable from memory', async t => {
  const { memory } = await aLiveMemory()
  memory.execute(tx => tx.run('INSERT INTO t VALUES (?)', 1))
  t.match(memory.fail(new Error('no power')), { code: 'write_failed' })
  t.equal(memory.failure, 'no power')
  t.strictSame(memory.get().all('SELECT a FROM t'), [])
  memory.succeed()
  t.equal(memory.failure, null)
})

t.test('without memory reads are refused, and try again after a second', async t => {
  const { memory, world } = await aLiveMemory()
  world.isBroken = true
  memory.fail(new Error('no power'))
  t.equal(memory.isGone, true)
  t.throws(() => memory.get(), { code: 'database_unavailable', message: /the disk fails/ })
  world.isBroken = false
  t.throws(() => memory.get(), { code: 'database_unavailable' })
  world.nowMs += 1000
  t.strictSame(memory.get().all('SELECT a FROM t'), [])
})

t.test('refuses a write inside another and asynchronous work', async t => {
  const { memory } = await aLiveMemory()
  t.throws(() => memory.execute(() => memory.execute(() => 1)), /inside another/)
  t.throws(() => memory.execute(async () => 1), /Cannot wait inside a write/)
})

t.test('does not rebuild memory after closing has begun', async t => {
  const { memory, world } = await aLiveMemory()
  memory.beginClosing()
  memory.close()
  world.nowMs += 5000
  t.throws(() => memory.get(), { code: 'database_unavailable', message: /it is closed/ })
})

t.test('counts each statement for its table', t => {
  const cases: Array<[string, string]> = [
    ['INSERT INTO projects (id) VALUES (?)', 'projects'],
    ['insert or replace into "tags" values (?)', 'tags'],
    ['UPDATE deployments SET status = ?', 'deployments'],
    ['UPDATE OR IGNORE audit SET a = ?', 'audit'],
    ['DELETE FROM projectTags WHERE a = ?', 'projectTags'],
    ['REPLACE INTO settings VALUES (?)', 'settings'],
    ['WITH a AS (SELECT 1) INSERT INTO projects SELECT * FROM a', 'projects'],
    [' \n update\n tags set a = 1', 'tags']
  ]
  const tables = ['projects', 'tags', 'deployments', 'audit', 'projectTags', 'settings']
  for (const [sql, table] of cases) {
    const versions = createVersions()
    const before = new Map(tables.map(name => [name, versions.of([name])]))
    versions.count([{ sql }])
    for (const name of tables) t.equal(versions.of([name]) !== before.get(name), name === table, `${sql}: ${name}`)
  }
  const versions = createVersions()
  const before = versions.of(['projects'])
  versions.count([{ sql: 'SOMETHING ELSE' }])
  t.not(versions.of(['projects']), before, 'what is not understood counts for all')
  t.end()
})

t.test('changes a version of the store with its tables only', async t => {
  const { store, audit } = await openStage(t)
  const projects = store.version(['projects', 'deployments'])
  const audited = store.version(['audit'])
  await audit.record({ action: 'auth.login', actor })
  t.equal(store.version(['projects', 'deployments']), projects)
  t.not(store.version(['audit']), audited)
  const now = store.version(['audit'])
  await t.rejects(
    store.write(tx => {
      tx.run(`DELETE FROM audit`)
      throw new Error('no')
    })
  )
  t.not(store.version(['audit']), now, 'a write that was rolled back may count')
})

t.test('reads once between two writes', async t => {
  const { store } = await openStage(t)
  let reads = 0
  const setting = keepReads(store, key => {
    reads++
    return readSettings(store)[key]
  })

  t.equal(setting('a'), undefined)
  await store.write(tx => writeSetting(tx, 'a', 'one'))
  reads = 0
  t.equal(setting('a'), 'one')
  t.equal(setting('a'), 'one')
  t.equal(reads, 1)
  await store.write(tx => writeSetting(tx, 'a', 'two'))
  t.equal(setting('a'), 'two', 'a write makes it be read again')

  const failing = store.write(tx => {
    writeSetting(tx, 'a', 'three')
    throw new Error('rolled back')
  })
  t.equal(setting('a'), 'two')
  await t.rejects(failing, { message: 'rolled back' })
  t.equal(setting('a'), 'two')
  t.equal(setting('missing'), undefined)
  t.equal(setting('missing'), undefined, 'what is not there is looked for again')
})
