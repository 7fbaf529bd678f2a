import t from 'tap'
import { LiveMemory } from '../../lib/store/live-memory.js'
import { createMemory, type Memory } from '../../lib/store/memory.js'
import { loadSqlite } from '../../lib/store/sqlite.js'

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
