import t from 'tap'
import { createProofs } from '../../../lib/core/audit/export.js'
import { createAuditWitness, type AuditWitness } from '../../../www/state/audit-witness.js'
import { openLog, type Log } from '../../core/audit/stage.js'

function aStorage() {
  const values = new Map<string, string>()
  return {
    values,
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => void values.set(key, value),
    removeItem: (key: string) => void values.delete(key)
  }
}

function witnessOf(log: Log | null, storage: ReturnType<typeof aStorage>): AuditWitness {
  const proofs = log === null ? null : createProofs(log)
  return createAuditWitness({
    base: 'https://deploy.example.org/',
    storage,
    checkpoint: async () => (await proofs?.checkpoint()) ?? null,
    proof: async (from, to) => proofs?.consistency(from, to) ?? null
  })
}

async function aLog(t: { testdir(): string; teardown(work: () => unknown): void }): Promise<Log> {
  const log = await openLog(t.testdir())
  t.teardown(log.close)
  return log
}

t.test('a log that only grows is well', async t => {
  const log = await aLog(t)
  const storage = aStorage()
  const witness = witnessOf(log, storage)
  await log.fill(3)
  t.same(await witness.look(), { size: 0, fault: null, before: 0, now: 3 }, 'the first look')
  for (const count of [0, 1, 300, 9]) {
    const before = log.keeper.newest()?.size ?? 0
    await log.fill(count)
    t.same(await witness.look(), { size: before, fault: null, before, now: before + count })
  }
  t.equal(storage.values.get('svc.audit https://deploy.example.org/'), log.keeper.newest()?.note)
})

t.test('a log that was rewritten or cut is found, until it is accepted', async t => {
  const storage = aStorage()
  const first = await aLog(t)
  await first.fill(50)
  await witnessOf(first, storage).look()

  const other = await openLog(t.testdir({ other: {} }))
  t.teardown(other.close)
  await other.store.write(tx => {
    tx.run('UPDATE auditTree SET origin = ?', first.keeper.newest()?.note.split('\n')[0] as string)
  })
  await other.fill(10)
  t.match(await witnessOf(other, storage).look(), { fault: /lost entries/, before: 50, now: 10 })
  await other.fill(40)
  t.match(await witnessOf(other, storage).look(), { fault: /rewritten/, before: 50, now: 50 })
  await other.fill(40)
  t.match(await witnessOf(other, storage).look(), { fault: /rewritten/, before: 50, now: 90 })
  t.match(await witnessOf(null, storage).look(), { fault: /does not show/, before: 50 })
  t.match(await witnessOf(first, storage).look(), { fault: null, size: 50 }, 'what was seen stays')
  const witness = witnessOf(other, storage)
  witness.forget()
  t.match(await witness.look(), { fault: null, size: 0 })
})

t.test('a server without checkpoints that never had any is older', async t => {
  t.equal(await witnessOf(null, aStorage()).look(), null)
})

t.test('a proof that needs removed hashes is missing', async t => {
  const log = await aLog(t)
  const storage = aStorage()
  await log.fill(5)
  await witnessOf(log, storage).look()
  await log.fill(5)
  const proofs = createProofs(log)
  const witness = createAuditWitness({
    base: 'https://deploy.example.org/',
    storage,
    checkpoint: () => proofs.checkpoint(),
    proof: async () => null
  })
  t.match(await witness.look(), { fault: /cannot be compared/, before: 5, now: 10 })
})
