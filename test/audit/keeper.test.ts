import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { entryOf } from '../../lib/audit/audit.js'
import { checkTree } from '../../lib/audit/check-tree.js'
import type { SignedCheckpoint } from '../../lib/audit/keeper.js'
import { insertAudit, listAudit, readAuditTree } from '../../lib/store/tables/audit.js'
import { until } from '../support/until.js'
import { readSignedCheckpoint } from './note-reader.js'
import { admin, openLog, type Log } from './stage.js'

const checkpointOf = async ({ keeper }: Log): Promise<SignedCheckpoint> => (await keeper.current()) as SignedCheckpoint

t.test('signs checkpoints that an independent reader accepts', async t => {
  const log = await openLog(t.testdir())
  t.teardown(log.close)
  t.equal(await log.keeper.current(), null, 'there is none of an empty log')
  t.equal(log.keeper.newest(), null)
  await log.fill(3)
  const { note, verifierKey, size } = await checkpointOf(log)
  t.equal(size, 3)
  t.equal(readSignedCheckpoint(note, verifierKey).size, 3)
  t.equal((await checkpointOf(log)).note, note, 'the same one without news')
  await log.fill(1)
  t.equal((await checkpointOf(log)).size, 4)
  t.same(
    log.signed.map(({ size }) => size),
    [3, 4]
  )
})

t.test('signs after a thousand entries, at the start and at the stop', async t => {
  const directory = t.testdir()
  const log = await openLog(directory)
  for (let n = 0; n < 10; n++) await log.fill(99)
  t.equal(log.keeper.newest(), null)
  await log.fill(20)
  await until(() => log.keeper.newest() !== null)
  t.equal(log.keeper.newest()?.size, 1010)
  await log.fill(5)
  await log.close()
  t.equal(log.signed.at(-1)?.size, 1015)
  const again = await openLog(directory)
  t.equal(again.keeper.newest()?.size, 1015, 'it is stored')
  await again.fill(1)
  again.keeper.start()
  await until(() => again.keeper.newest()?.size === 1016)
  await again.close()
  t.same(again.errors, [])
})

t.test('makes leaves of the entries from before the tree, and says so in the first checkpoint', async t => {
  const directory = t.testdir()
  const before = await openLog(directory)
  await before.store.write(tx => {
    for (let n = 1; n <= 450; n++) {
      const entry = entryOf({ action: 'thing.done', actor: admin, target: String(n) }, `aud_${n}`, 0)
      insertAudit(tx, { ...entry, failures: n === 450 ? 2 : null })
    }
    tx.run('UPDATE auditTree SET isPending = 1, baseline = 450')
  })
  await before.store.close()

  const log = await openLog(directory)
  t.teardown(log.close)
  await log.fill(2)
  t.equal(readAuditTree(log.store).size, 0)
  t.equal(await log.keeper.current(), null, 'no checkpoint before all of them are leaves')
  log.keeper.start()
  await until(() => log.keeper.newest() !== null)
  t.match(log.keeper.newest(), { size: 452, note: /^svc\/.*\n452\n.*\nbaseline 450\n\n/ })
  const entries = listAudit(log.store, { limit: 500 }).reverse()
  t.same(
    entries.map(({ seq }) => seq),
    entries.map((_, at) => at + 1),
    'in their order'
  )
  t.equal(await checkTree(log.store), null)
  await log.fill(1)
  t.notMatch((await checkpointOf(log)).note, /baseline/)
})

t.test('makes leaves of the summaries that a crash left over', async t => {
  const directory = t.testdir()
  const before = await openLog(directory)
  await before.fill(1)
  const summary = entryOf(
    { action: 'auth.login_failed', actor: { name: 'anonymous', ip: null }, ok: false },
    'aud_x',
    0
  )
  await before.store.write(tx => insertAudit(tx, { ...summary, failures: 3 }))
  await before.store.close()
  const log = await openLog(directory)
  t.teardown(log.close)
  const open = { ...summary, id: 'aud_y', failures: 1 }
  await log.store.write(tx => insertAudit(tx, open))
  log.keeper.start()
  await until(() => log.keeper.newest()?.size === 2)
  const [own, left] = listAudit(log.store, { limit: 2 })
  t.match(
    [own, left],
    [
      { id: 'aud_y', seq: null },
      { id: 'aud_x', seq: 2 }
    ]
  )
})

t.test('remembers a damage, writes an entry, and continues', async t => {
  const directory = t.testdir()
  const before = await openLog(directory)
  await before.fill(300)
  await before.keeper.current()
  await before.store.write(tx => tx.run("UPDATE audit SET actor = 'nobody' WHERE seq = 200"))
  t.match(before.keeper.state(), { ok: true })
  await before.store.close()

  const log = await openLog(directory)
  log.keeper.start()
  await until(() => log.keeper.newest()?.size === 301)
  const brokenSince = log.keeper.state().brokenSince
  t.match(log.keeper.state(), { ok: false, brokenSince: /^20/, why: 'entry 200 was changed' })
  t.match(listAudit(log.store, { limit: 1 }), [
    { action: 'audit.tree_broken', actor: 'system', detail: 'entry 200 was changed', ok: false, seq: 301 }
  ])
  await log.fill(1)
  await log.close()

  const again = await openLog(directory)
  t.teardown(again.close)
  again.clock.advance(60_000)
  again.keeper.start()
  await again.keeper.stop()
  t.equal(again.keeper.state().brokenSince, brokenSince, 'since when stays')
  t.equal(listAudit(again.store, { action: 'audit.tree_broken', limit: 9 }).length, 1, 'it is told once')
})

t.test('mends a damaged frontier at the start', async t => {
  const directory = t.testdir()
  const before = await openLog(directory)
  await before.fill(300)
  const { note } = await checkpointOf(before)
  await before.store.write(tx => tx.run('UPDATE auditTree SET frontier = ?', Buffer.alloc(4 * 32, 1)))
  await before.store.close()
  const log = await openLog(directory)
  t.teardown(log.close)
  log.keeper.start()
  await until(() => log.keeper.newest()?.size === 301)
  t.match(log.keeper.state(), { ok: false, why: /frontier/ })
  t.equal(await checkTree(log.store), null, 'the tree is well, and continues the signed one')
  t.match(note, /\n300\n/)
})

t.test('reports a key that cannot be used, and signs once it can', async t => {
  const directory = t.testdir({ keys: { 'server.ed25519': 'x' } })
  const log = await openLog(directory)
  t.teardown(log.close)
  await log.fill(1)
  await t.rejects(log.keeper.current(), { code: 'server_key' })
  log.keeper.sign()
  await until(() => log.errors.length > 0)
  t.match(log.errors, [{ code: 'server_key' }])
  rmSync(join(directory, 'keys'), { recursive: true })
  t.equal((await checkpointOf(log)).size, 1)
})

t.test('signs every hour with new entries, and only then', async t => {
  const hourly: Array<() => void> = []
  const intercepted = t.intercept(globalThis, 'setInterval', {
    value: (run: () => void, ms: number) => {
      if (ms === 60 * 60_000) hourly.push(run)
      return { unref: () => undefined }
    }
  })
  const log = await openLog(t.testdir())
  t.teardown(log.close)
  log.keeper.start()
  intercepted.restore()
  t.equal(hourly.length, 1)
  const sizesAfterAnHour = async (): Promise<number[]> => {
    hourly[0]?.()
    await log.keeper.current()
    return log.signed.map(({ size }) => size)
  }
  t.same(await sizesAfterAnHour(), [], 'the log is empty')
  await log.fill(7)
  t.same(log.signed, [], 'an entry alone is not signed at once')
  hourly[0]?.()
  await until(() => log.signed.length > 0)
  t.same(await sizesAfterAnHour(), [7])
  t.same(await sizesAfterAnHour(), [7], 'nothing new')
})
