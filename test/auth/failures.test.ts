import t from 'tap'
import { createFailures } from '../../lib/auth/failures.js'
import type { Failure } from '../../lib/auth/limiter.js'
import { readRanges } from '../../lib/audit/tree.js'
import { randomIds } from '../../lib/base/digests.js'
import { listAudit } from '../../lib/store/tables/audit.js'
import { openStage } from '../support/store.js'

async function aLog(t: Parameters<typeof openStage>[0], keep?: number) {
  const { store, clock, audit } = await openStage(t)
  let writes = 0
  const counting = { write: <T>(work: Parameters<typeof store.write<T>>[0]) => (writes++, store.write(work)) }
  const onError = (error: unknown): void => {
    throw error
  }
  const failures = createFailures({
    store: counting,
    clock,
    ids: randomIds,
    onError,
    ...(keep === undefined ? {} : { keep })
  })
  const note = (witnessed: string, failure: Failure, address = witnessed) =>
    failures.note({ witnessed, address, viaProxy: witnessed !== address, local: false }, failure)
  return {
    note,
    flush: failures.flush,
    clock,
    audit,
    entries: () => listAudit(store, { limit: 500_000 }),
    writes: () => writes
  }
}

t.test('writes the first failure of a minute at once and counts the others', async t => {
  const { note, flush, entries, writes } = await aLog(t)
  note('192.0.2.1', 'wrong', '10.0.0.1')
  t.match(entries(), [
    {
      action: 'auth.login_failed',
      actor: 'anonymous',
      ok: false,
      ip: '192.0.2.1',
      claimedIp: '10.0.0.1',
      failures: 1,
      detail: '1 failed attempt'
    }
  ])
  for (let i = 0; i < 6; i++) note('192.0.2.1', 'wrong')
  t.match(entries(), [{ failures: 1, seq: null }], 'an entry that still changes is not a leaf of the tree')
  note('192.0.2.1', 'locked')
  t.match(entries(), [{ failures: 8, detail: '8 failed attempts, the address is locked' }], 'a lock is written at once')
  for (let i = 0; i < 100_000; i++) note('192.0.2.1', 'refused')
  t.equal(writes(), 2, 'a fast guesser causes no writes')
  await flush()
  t.match(entries(), [
    { failures: 100_008, detail: '8 failed attempts, 100000 refused without a check, the address is locked', seq: 1 }
  ])
  note('192.0.2.1', 'wrong')
  t.match(entries(), [{ failures: 1, seq: null }, { failures: 100_008 }], 'a leaf never changes: a new entry begins')
})

t.test('writes one entry per minute and network', async t => {
  const { note, flush, clock, entries } = await aLog(t)
  note('192.0.2.1', 'wrong')
  note('192.0.2.1', 'wrong')
  note('2001:db8::1', 'wrong')
  note('2001:db8::2', 'wrong')
  clock.advance(60_000)
  note('192.0.2.1', 'wrong')
  await flush()
  t.match(entries(), [
    { ip: '192.0.2.1', failures: 1, seq: 3 },
    { ip: '2001:db8::1', failures: 2 },
    { ip: '192.0.2.1', failures: 2 }
  ])
})

t.test('networks over a thousand in a minute share one entry', async t => {
  const { note, flush, entries } = await aLog(t)
  for (let i = 0; i < 1500; i++) note(`10.0.${i >> 8}.${i & 255}`, 'wrong')
  await flush()
  t.equal(entries().length, 1001)
  t.match(entries()[0], { ip: null, failures: 500, detail: '500 failed attempts, from other addresses' })
})

t.test('limits its entries without removing others', async t => {
  const { note, flush, clock, audit, entries } = await aLog(t, 50)
  await audit.record({ action: 'project.create', actor: { name: 'admin', ip: null } })
  for (let i = 0; i < 1000; i++) {
    note('192.0.2.1', 'wrong')
    clock.advance(60_000)
  }
  await flush()
  const kinds = entries().map(({ action }) => action)
  t.ok(kinds.length <= 50 + 100 + 1, `${kinds.length}`)
  t.ok(kinds.includes('project.create'))
  const removed = entries().filter(({ action }) => action === 'audit.trimmed')
  t.ok(removed.length > 0)
  const left = new Set(entries().map(({ seq }) => seq))
  for (const [from, to] of removed.flatMap(({ target }) => readRanges(target ?? '')))
    for (let seq = from; seq <= to; seq++) t.notOk(left.has(seq), `${seq} was removed, as the log says`)
})
