import t from 'tap'
import { entryOf } from '../../lib/audit/audit.js'
import { entryText, type SealedEntry } from '../../lib/audit/entry-text.js'
import {
  mendFrontier,
  readFrontier,
  readNodes,
  rootOfLeaves,
  sealEntries,
  trimLeaves,
  writeLeaf
} from '../../lib/audit/leaves.js'
import {
  appendLeaf,
  blockLeaves,
  consistencyProof,
  emptyFrontier,
  frontierAt,
  hashLeaf,
  hashNode,
  rootOf,
  type Frontier
} from '../../lib/audit/tree.js'
import { type AuditEntry, systemActor } from '../../lib/model/audit.js'
import { isConsistent } from '../../lib/shared/merkle-proof.js'
import type { Store } from '../../lib/store/database.js'
import { openStore } from '../../lib/store/durable-store.js'
import { auditBlocks, auditLeaves, insertAudit, readAuditTree, sealedAudit } from '../../lib/store/tables/audit.js'
import { aStore } from '../store/stage.js'

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
  return entries.reduce((tree, entry) => appendLeaf(tree, hashLeaf(entryText(entry))).frontier, emptyFrontier)
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
