import t from 'tap'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { entryOf, trimLeaves } from '../../../lib/core/audit/audit.js'
import { checkTree, createCheckpointFile, type SignedCheckpoint } from '../../../lib/core/audit/keeper.js'
import type { Transaction } from '../../../lib/core/store/database.js'
import { insertAudit, listAudit, readAuditTree } from '../../../lib/core/store/tables/audit.js'
import { until } from '../../support/until.js'
import { readSignedCheckpoint } from './note-reader.js'
import { admin, type Log, openLog } from './stage.js'

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

function aFile(place: string) {
  const errors: unknown[] = []
  return { errors, file: createCheckpointFile({ place: () => place, onError: error => void errors.push(error) }) }
}

t.test('replaces the file with each note', async t => {
  const directory = t.testdir()
  const { file, errors } = aFile(join(directory, 'note'))
  await Promise.all([file.write('one\n'), file.write('two\n')])
  t.equal(readFileSync(join(directory, 'note'), 'utf8'), 'two\n')
  t.same(readdirSync(directory), ['note'])
  t.same(errors, [])
})

t.test('appends each note after ">>"', async t => {
  const path = join(t.testdir(), 'notes')
  const { file } = aFile(`>>${path}`)
  await Promise.all([file.write('one\n'), file.write('two\n')])
  t.equal(readFileSync(path, 'utf8'), 'one\n\ntwo\n\n')
})

t.test('writes nothing without a path, and reports an error without rejecting', async t => {
  await aFile('').file.write('one\n')
  const { file, errors } = aFile(join(t.testdir(), 'missing', 'note'))
  await file.write('one\n')
  t.match(errors, [{ code: 'ENOENT' }])
})

const other = Buffer.alloc(32, 7)

t.test('finds no fault in a log whose old entries were removed', async t => {
  const log = await openLog(t.testdir(), { keepDays: 10 })
  t.teardown(log.close)
  await log.fill(800)
  await log.keeper.current()
  t.equal(await checkTree(log.store), null)
  log.clock.advance(20 * 24 * 60 * 60_000)
  await log.fill(300)
  t.equal(log.store.all('SELECT seq FROM audit').length, 301)
  t.equal(await checkTree(log.store), null)
  await log.store.write(tx => trimLeaves(tx, 300))
  t.equal(log.store.all('SELECT seq FROM auditLeaves').length, 1101 - 768)
  t.equal(await checkTree(log.store), null, 'also without the hashes of old leaves')
})

t.test('finds each kind of damage', async t => {
  const damages: Array<[what: string, damage: (tx: Transaction) => void, why: RegExp, isMendable: boolean]> = [
    ['an entry', tx => tx.run("UPDATE audit SET detail = 'x' WHERE seq = 300"), /entry 300 was changed/, false],
    ['the time of an entry', tx => tx.run("UPDATE audit SET at = '2031' WHERE seq = 1"), /entry 1 was/, false],
    ['a removed entry', tx => tx.run('DELETE FROM audit WHERE seq = 700'), /entry 700 is missing/, false],
    ['the last entry', tx => tx.run('DELETE FROM audit WHERE seq = 800'), /entry 800 is missing/, false],
    ['a removed hash', tx => tx.run('DELETE FROM auditLeaves WHERE seq = 9'), /1 to 256 are missing/, false],
    ['a changed hash', tx => tx.run('UPDATE auditLeaves SET hash = ? WHERE seq = 9', other), /entry 9 was/, false],
    [
      'the root of a block',
      tx => tx.run('UPDATE auditBlocks SET root = ? WHERE number = 1', other),
      /257 to 512/,
      true
    ],
    ['a missing block', tx => tx.run('DELETE FROM auditBlocks WHERE number = 1'), /257 to 512/, true],
    ['the frontier', tx => tx.run('UPDATE auditTree SET frontier = ?', Buffer.alloc(3 * 32)), /frontier/, true],
    [
      'a tree that was cut',
      tx => {
        tx.run('DELETE FROM audit WHERE seq > 512')
        tx.run('DELETE FROM auditLeaves WHERE seq > 512')
        const row = tx.get('SELECT root FROM auditBlocks WHERE number = 0')
        t.ok(row)
        tx.run('UPDATE auditTree SET size = 512')
      },
      /frontier/,
      true
    ]
  ]
  for (const [what, damage, why, isMendable] of damages) {
    const log = await openLog(t.testdir())
    await log.fill(800)
    await log.store.write(damage)
    t.match(await checkTree(log.store), { why, isMendable }, what)
    await log.store.close()
  }
})

t.test('finds a tree that was rewritten after its checkpoint', async t => {
  const log = await openLog(t.testdir())
  await log.fill(100)
  await log.keeper.current()
  const note = log.keeper.newest()?.note as string
  const second = await openLog(join(t.testdir({ other: {} }), 'other'))
  await second.fill(120)
  await second.store.write(tx =>
    tx.run('INSERT INTO auditCheckpoints (size, at, note) VALUES (100, ?, ?)', '2030', note)
  )
  t.match(await checkTree(second.store), { why: /checkpoint of 100 entries/, isMendable: false })
  await log.close()
  await second.store.close()
})
