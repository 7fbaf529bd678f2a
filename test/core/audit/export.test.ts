import t from 'tap'
import { entryOf, trimLeaves } from '../../../lib/core/audit/audit.js'
import { createProofs, exportAudit } from '../../../lib/core/audit/export.js'
import type { SignedCheckpoint } from '../../../lib/core/audit/keeper.js'
import { insertAudit } from '../../../lib/core/store/tables/audit.js'
import { exported, verified } from './export-stage.js'
import { admin, openLog } from './stage.js'

t.test('has a line for each entry, and the checkpoint at the end', async t => {
  const log = await openLog(t.testdir())
  t.teardown(log.close)
  await log.fill(3)
  const lines = (await exported(log)).split('\n')
  t.match(JSON.parse(lines[0] as string), { svcAudit: 2, key: /^svc\// })
  t.match(
    lines.slice(1, 4).map(line => JSON.parse(line)),
    [1, 2, 3].map(seq => ({ leaf: /=$/, entry: { seq, action: 'thing.done', actor: 'admin', ok: true } }))
  )
  t.match(JSON.parse(lines[4] as string), { checkpoint: /\n3\n/ })
  t.equal(lines[5], '')
})

t.test('has the roots of blocks whose hashes were removed, and of those outside the range', async t => {
  const log = await openLog(t.testdir(), { keepDays: 10 })
  t.teardown(log.close)
  await log.fill(1000)
  log.clock.advance(20 * 24 * 60 * 60_000)
  await log.fill(300)
  await log.store.write(tx => trimLeaves(tx, 400))
  const text = await exported(log)
  t.match(text, /\{"removedBlock":3,"root":"[^"]+"\}\n\{"leaf":"[^"]+","removed":769\}/)
  t.match(verified(text), { faults: [], removed: 1000, entries: 301 })
  const part = await exported(log, { from: 1281 })
  t.match(part, /"omittedBlock":5/)
  t.match(verified(part), { faults: [], entries: 21 })
})

t.test('is not completed if entries are removed while it is read', async t => {
  const log = await openLog(t.testdir(), { keepDays: 10 })
  t.teardown(log.close)
  await log.fill(600)
  const checkpoint = (await log.keeper.current()) as SignedCheckpoint
  const pieces = exportAudit(log.store, checkpoint, { from: 1, to: 600 })
  await pieces.next()
  log.clock.advance(20 * 24 * 60 * 60_000)
  await log.fill(1)
  const rest = async () => {
    for await (const piece of pieces) t.type(piece, 'string')
  }
  await t.rejects(rest(), { code: 'changed_meanwhile' })
})

t.test('proves what a log contains', async t => {
  const log = await openLog(t.testdir(), { keepDays: 10 })
  t.teardown(log.close)
  const proofs = createProofs(log)
  await t.rejects(proofs.checkpoint(), { code: 'not_found' })
  await log.fill(600)
  t.match(await proofs.checkpoint(), { size: 600, key: /^svc\// })
  t.match(proofs.consistency(100), { from: 100, to: 600 })
  t.throws(() => proofs.consistency(100, 601), { code: 'invalid_field', field: 'to' })
  t.throws(() => proofs.consistency(101, 100), { code: 'invalid_field', field: 'from' })
  let text = ''
  for await (const piece of await proofs.export({ from: 590 })) text += piece
  t.match(verified(text), { faults: [], entries: 11, omitted: 589 })

  await t.test('refuses an entry that can still change', async t => {
    const open = entryOf({ action: 'auth.login_failed', actor: admin }, 'aud_open', 0)
    await log.store.write(tx => insertAudit(tx, { ...open, failures: 1 }))
    await t.rejects(proofs.inclusion('aud_open'), { code: 'not_sealed' })
    await t.rejects(proofs.inclusion('aud_none'), { code: 'not_found' })
  })

  await t.test('refuses what the removed hashes would be needed for', async t => {
    log.clock.advance(20 * 24 * 60 * 60_000)
    await log.fill(1)
    await log.store.write(tx => trimLeaves(tx, 10))
    t.throws(() => proofs.consistency(100), { code: 'history_gone' })
    t.match(proofs.consistency(512), { from: 512, to: 602 })
  })
})
