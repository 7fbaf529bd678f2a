import t from 'tap'
import { entryOf } from '../../lib/audit/audit.js'
import { trimLeaves } from '../../lib/audit/leaves.js'
import { createProofs } from '../../lib/audit/proofs.js'
import { insertAudit } from '../../lib/store/tables/audit.js'
import { verified } from './export-stage.js'
import { admin, openLog } from './stage.js'

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
