import t from 'tap'
import {
  createAudit,
  entryOf,
  mendFrontier,
  readFrontier,
  readNodes,
  rootOfLeaves,
  sealEntries,
  trimLeaves,
  writeLeaf,
  seenTime
} from '../../../lib/core/audit/audit.js'
import {
  appendLeaf,
  blockLeaves,
  consistencyProof,
  entryText,
  type Frontier,
  frontierAt,
  hashLeaf,
  hashNode,
  rootOf,
  type SealedEntry
} from '../../../lib/core/audit/tree.js'
import { randomIds } from '../../../lib/base/digests.js'
import { Refusal } from '../../../lib/base/errors.js'
import { type AuditEntry, systemActor } from '../../../lib/model/audit.js'
import type { Store } from '../../../lib/core/store/database.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import {
  auditBlocks,
  auditLeaves,
  insertAudit,
  listAudit,
  readAuditTree,
  sealedAudit,
  insertAuditCheckpoint
} from '../../../lib/core/store/tables/audit.js'
import { aStore } from '../store/stage.js'
import { setClock } from '../../support/clock.js'
import { isConsistent } from '../../../lib/base/shared/merkle-proof.js'
import { createSteadyClock } from '../../../lib/base/clock.js'

const dayMs = 24 * 60 * 60_000

t.test('entries', async t => {
  const clock = setClock()
  const store = await openStore({ directory: t.testdir(), clock })
  t.teardown(() => store.close())
  const errors: unknown[] = []
  const audit = createAudit({
    store,
    clock,
    ids: randomIds,
    onError: error => void errors.push(error),
    keepDays: () => 400
  })
  const all = () => listAudit(store, { limit: 500 })

  t.test('have every field', async t => {
    await audit.record({
      action: 'thing.done',
      actor: { name: 'admin', ip: '192.0.2.1' },
      target: 'x',
      projectId: 'proj_a'
    })
    t.match(all(), [
      {
        id: /^aud_/,
        at: '2030-01-01T00:00:00.000Z',
        action: 'thing.done',
        actor: 'admin',
        ip: '192.0.2.1',
        projectId: 'proj_a',
        target: 'x',
        detail: null,
        ok: true
      }
    ])
  })

  t.test('are stored exactly when their change is', async t => {
    const before = all().length
    const failing = store.write(tx => {
      audit.within(tx, { action: 'thing.failed', actor: systemActor })
      throw new Error('The change did not happen')
    })
    await t.rejects(failing, { message: /did not happen/ })
    t.equal(all().length, before)
    await store.write(tx =>
      audit.within(tx, { action: 'thing.happened', actor: systemActor, ok: false, detail: 'why' })
    )
    t.match(all()[0], { action: 'thing.happened', ok: false, detail: 'why', actor: 'system', ip: null })
  })

  t.test('refuse a change whose actor has lost its right meanwhile, and record what has happened', async t => {
    const before = all().length
    const checkAgain = (finishes: boolean): void => {
      throw new Refusal('unauthorized', 'token_revoked', finishes ? 'It may have expired' : 'It may not')
    }
    const actor = { name: 'token:ci', ip: null, checkAgain }
    const change = (ok?: boolean) => store.write(tx => audit.within(tx, { action: 'thing.changed', actor, ok }))
    await t.rejects(change(), { code: 'token_revoked', message: 'It may have expired' })
    t.equal(all().length, before)
    await change(false)
    await audit.record({ action: 'thing.happened', actor })
    t.match(all(), [{ action: 'thing.happened' }, { action: 'thing.changed', ok: false }])
    t.equal(all().length, before + 2)
  })

  t.test('are removed by age once a day, never by number', async t => {
    await store.write(tx => {
      for (let i = 0; i < 2000; i++)
        audit.within(tx, { action: 'thing.counted', actor: systemActor, target: String(i) })
    })
    t.ok(listAudit(store, { limit: 5000 }).length > 2000)
    let days = 400
    const kept = createAudit({
      store,
      clock,
      ids: randomIds,
      onError: error => void errors.push(error),
      keepDays: () => days
    })
    clock.advance(399 * dayMs)
    await kept.record({ action: 'thing.young', actor: systemActor })
    clock.advance(2 * dayMs)
    await kept.record({ action: 'thing.new', actor: systemActor })
    const left = (): string[] => all().map(({ action }) => action)
    t.same(left(), ['audit.trimmed', 'thing.new', 'thing.young'])
    t.match(all()[0], { actor: 'system', target: '1-2004', detail: '2004 older than 400 days', seq: 2007 })
    days = 1
    clock.advance(dayMs / 2)
    await kept.record({ action: 'thing.newer', actor: systemActor })
    t.equal(all().length, 4, 'nothing is removed half a day later')
    clock.advance(dayMs)
    await kept.record({ action: 'thing.newest', actor: systemActor })
    t.same(left(), ['audit.trimmed', 'thing.newest', 'thing.newer'])
    t.match(all()[0], { target: '1-2007', detail: '3 older than 1 day' })
  })

  t.test('reports an entry that cannot be stored without rejecting', async t => {
    const broken = createAudit({
      store: { write: () => Promise.reject(new Error('The disk is full')) },
      clock,
      ids: randomIds,
      onError: error => void errors.push(error),
      keepDays: () => 400
    })
    await broken.record({ action: 'thing.done', actor: systemActor })
    t.match(errors, [{ message: 'The disk is full' }])
  })
})

const anEntry = (n: number): AuditEntry =>
  entryOf({ action: 'thing.done', actor: systemActor, target: String(n) }, `aud_${n}`, 0)

async function fill(store: Store, from: number, to: number): Promise<void> {
  await store.write(tx => {
    for (let n = from; n <= to; n++) writeLeaf(tx, anEntry(n))
  })
}

/** Computes the tree from the entries themselves. */
function computed(store: Store): Frontier {
  const entries = sealedAudit(store, 1, Number.MAX_SAFE_INTEGER) as SealedEntry[]
  const empty: Frontier = { size: 0, hashes: [] }
  return entries.reduce((tree, entry) => appendLeaf(tree, hashLeaf(entryText(entry))).frontier, empty)
}

const stored = (store: Store): Frontier | null => readFrontier(readAuditTree(store))

t.test('each entry is a leaf, in the transaction that writes it', async t => {
  const store = await aStore(t)
  await fill(store, 1, 700)
  t.equal(stored(store)?.size, 700)
  t.same(stored(store), computed(store))
  t.same(frontierAt(700, readNodes(store)), computed(store), 'read from blocks and leaves')
  const failing = store.write(tx => {
    writeLeaf(tx, anEntry(701))
    throw new Error('The change did not happen')
  })
  await t.rejects(failing)
  t.equal(stored(store)?.size, 700)
  t.equal(auditLeaves(store, 701, 701).length, 0)
})

t.test('the tree survives a kill and a start', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await fill(store, 1, 300)
  const before = stored(store)
  await store.checkpoint()
  await fill(store, 301, 600)
  const after = stored(store)
  t.notSame(before, after)
  await store.close()
  const again = await openStore({ directory })
  t.teardown(() => again.close())
  t.same(stored(again), after)
  t.same(computed(again), after)
})

t.test('entries from before the tree become leaves in their order', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (let n = 1; n <= 10; n++) insertAudit(tx, anEntry(n))
    tx.run('UPDATE auditTree SET isPending = 1')
  })
  await fill(store, 11, 11)
  t.equal(stored(store)?.size, 0, 'a new entry waits with them')
  await store.write(tx => {
    sealEntries(tx, [1, 2, 3].map(anEntry))
    sealEntries(tx, [4, 99, 5].map(anEntry))
  })
  t.same(
    sealedAudit(store, 1, 99).map(({ id, seq }) => [id, seq]),
    [1, 2, 3, 4, 5].map(n => [`aud_${n}`, n]),
    'one that was removed meanwhile is skipped'
  )
  t.same(stored(store), computed(store))
})

t.test('proves later trees after entries were removed', async t => {
  const store = await aStore(t)
  await fill(store, 1, 400)
  const early = stored(store) as Frontier
  await fill(store, 401, 1000)
  await store.write(tx => tx.run('DELETE FROM audit WHERE seq < 900'))
  const late = stored(store) as Frontier
  const claim = { from: 400, fromRoot: rootOf(early), to: 1000, toRoot: rootOf(late) }
  t.ok(isConsistent({ ...claim, proof: consistencyProof(400, 1000, readNodes(store)) }, hashNode))

  await t.test('until the hashes of their leaves are removed above a limit', async t => {
    await store.write(tx => trimLeaves(tx, 300))
    t.equal(auditLeaves(store, 1, 512).length, 0, 'whole blocks')
    t.equal(auditLeaves(store, 513, 1000).length, 488)
    t.throws(() => consistencyProof(400, 1000, readNodes(store)), { code: 'history_gone' })
    const proof = consistencyProof(512, 1000, readNodes(store))
    const fromRoot = rootOf(frontierAt(512, readNodes(store)))
    t.ok(isConsistent({ ...claim, from: 512, fromRoot, proof }, hashNode), 'from the end of a block it still works')
  })

  await t.test('which keeps a block of which an entry is left', async t => {
    await store.write(tx => trimLeaves(tx, 10))
    t.equal(auditLeaves(store, 513, 1000).length, 1000 - 768)
  })
})

t.test('mends a damaged frontier, remembers it and continues', async t => {
  const damages: Array<[what: string, sql: string, ...values: Uint8Array[]]> = [
    ['too few hashes', 'UPDATE auditTree SET frontier = ?', Buffer.alloc(32)],
    ['half a hash', 'UPDATE auditTree SET frontier = ?', Buffer.alloc(33)],
    ['another size', 'UPDATE auditTree SET size = 3']
  ]
  for (const [what, sql, ...values] of damages) {
    const store = await aStore(t)
    await fill(store, 1, 600)
    await store.write(tx => tx.run(sql, ...values))
    await fill(store, 601, 603)
    t.same(stored(store), computed(store), what)
    t.match(readAuditTree(store), { brokenSince: /^1970/, brokenWhy: /frontier/ }, what)
  }
})

t.test('mends the roots of blocks, too', async t => {
  const store = await aStore(t)
  await fill(store, 1, 600)
  const root = rootOfLeaves(store, 1)
  await store.write(tx => tx.run('UPDATE auditBlocks SET root = ? WHERE number = 1', Buffer.alloc(32)))
  await store.write(tx => void mendFrontier(tx, { since: 'now', why: 'a test' }))
  t.same(auditBlocks(store, 1, 1).get(1), root)
  t.same(stored(store), computed(store))
})

t.test('entries are written even if the tree cannot be mended', async t => {
  const store = await aStore(t)
  await fill(store, 1, 2 * blockLeaves + 7)
  await store.write(tx => {
    tx.run('DELETE FROM auditLeaves WHERE seq BETWEEN 100 AND 200')
    tx.run('DELETE FROM auditBlocks')
    tx.run('UPDATE auditTree SET frontier = ?', Buffer.alloc(1))
  })
  await fill(store, 1000, 1000)
  t.equal(store.get('SELECT seq FROM audit WHERE id = ?', 'aud_1000')?.['seq'], null)
  t.match(readAuditTree(store), { brokenSince: /^1970/ })
})

const first = Date.UTC(2026, 4, 10)
const day = (n: number): string => new Date(first + n * dayMs).toISOString()

t.test('a clock that is set back makes nothing younger', async t => {
  const store = await aStore(t)
  let ms = first
  const clock = createSteadyClock({ machine: () => ms, elapsed: () => 0 })
  const seen = () => seenTime(store, clock)
  t.equal(seen(), day(0), 'without a checkpoint')
  ms = first + 3 * dayMs
  t.equal(seen(), day(3), 'a clock that is set forward')
  ms = first
  t.equal(new Date(clock.now()).toISOString(), day(0), 'the clock itself follows its machine')
  t.equal(seen(), day(3), 'what it has shown before')

  await store.write(tx => insertAuditCheckpoint(tx, { size: 1, at: day(5), note: 'a' }, 2))
  // A clock that was set back signs later checkpoints with earlier times, until the first one is not kept any more.
  for (let size = 2; size < 8; size++)
    await store.write(tx => insertAuditCheckpoint(tx, { size, at: day(1), note: 'b' }, 2))
  t.equal(store.all('SELECT 1 FROM auditCheckpoints').length, 3, 'the newest two, and the latest')
  t.equal(seen(), day(5), 'what the audit log says')
  t.equal(seenTime(store, { now: () => first }), day(5), 'also after a start, which knows nothing else')
  t.equal(seenTime(store, { now: () => first + 9 * dayMs }), day(9))
  t.equal(seenTime(store, { now: () => first, isTrusted: true }), day(0), 'the owner says that the clock is right')
})
