import t from 'tap'
import { addressesOf, checkKeepsIn, createAllowList, createFailures } from '../../lib/access/failures.js'
import type { Failure } from '../../lib/access/limiter.js'
import { readRanges } from '../../lib/core/audit/tree.js'
import { randomIds } from '../../lib/base/digests.js'
import { listAudit } from '../../lib/core/store/tables/audit.js'
import { openStage } from '../support/store.js'
import { localClient } from '../../lib/http/core/headers.js'

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
  // The end of the minute must not come after the store is closed.
  t.teardown(() => failures.flush())
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

t.test('returns the addresses of an actor', async t => {
  const of = (witnessed: string, address: string) => addressesOf({ witnessed, address, viaProxy: true, local: false })
  t.strictSame(of('203.0.113.9', '203.0.113.9'), { ip: '203.0.113.9', claimedIp: null })
  t.strictSame(of('203.0.113.9', '10.0.0.1'), { ip: '203.0.113.9', claimedIp: '10.0.0.1' })
  t.strictSame(addressesOf(localClient), { ip: null, claimedIp: null })
})

const cases: Array<[allowed: string[], address: string, isAllowed: boolean]> = [
  [[], '203.0.113.9', true],
  [['203.0.113.9'], '203.0.113.9', true],
  [['203.0.113.9'], '203.0.113.90', false],
  [['203.0.113.0/24'], '203.0.113.90', true],
  [['203.0.113.0/24'], '203.0.114.1', false],
  [['2001:db8::/32'], '2001:db8:1::5', true],
  [['2001:db8::/32'], '2001:db9::5', false],
  [['203.0.113.9'], '::ffff:203.0.113.9', true],
  [['10.0.0.0/8', '::1'], '::1', true],
  [['10.0.0.0/8'], 'not an address', false]
]

t.test('allows the addresses of the list', async t => {
  for (const [allowed, address, isAllowed] of cases) {
    const check = () => createAllowList({ allowed: () => allowed }).check(address)
    if (isAllowed) t.doesNotThrow(check, `${address} in ${allowed}`)
    else t.throws(check, { kind: 'forbidden', code: 'address_not_allowed' }, `${address} in ${allowed}`)
  }
})

t.test('refuses a list without the address of the client that sets it', async t => {
  for (const [allowed, address, isAllowed] of cases) {
    const check = () => checkKeepsIn(allowed, address)
    if (isAllowed) t.doesNotThrow(check)
    else t.throws(check, { kind: 'invalid', code: 'shuts_out_yourself', field: 'allowed_ips' })
  }
})
