import t from 'tap'
import {
  auditBlocks,
  auditLeaves,
  endAuditBaseline,
  insertAuditBlock,
  insertAuditCheckpoint,
  insertAuditLeaf,
  lastAuditLeaf,
  markAuditTree,
  nameAuditTree,
  newestAuditCheckpoint,
  readAuditTree,
  removeAuditLeaves,
  writeAuditFrontier
} from '../../../lib/store/tables/audit-tree.js'
import { aStore } from '../stage.js'

const hash = (n: number): Buffer => Buffer.alloc(32, n)

t.test('a new database has an empty tree', async t => {
  const store = await aStore(t)
  t.match(readAuditTree(store), { size: 0, baseline: 0, isPending: false, origin: null, brokenSince: null })
  t.equal(readAuditTree(store).frontier.length, 0)
  t.equal(lastAuditLeaf(store), 0)
  t.equal(newestAuditCheckpoint(store), null)
})

t.test('writes the fields of the tree', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    writeAuditFrontier(tx, { size: 2, frontier: hash(7) })
    nameAuditTree(tx, 'svc/a/audit')
    markAuditTree(tx, { since: '2026-01-01', why: 'a test' })
    endAuditBaseline(tx)
  })
  const fields = { origin: 'svc/a/audit', brokenSince: '2026-01-01', brokenWhy: 'a test', isPending: false }
  t.match(readAuditTree(store), { size: 2, ...fields })
  t.same(Buffer.from(readAuditTree(store).frontier), hash(7))
  await store.write(tx => markAuditTree(tx, null))
  t.match(readAuditTree(store), { brokenSince: null, brokenWhy: null })
})

t.test('stores hashes of leaves and roots of blocks', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (let seq = 1; seq <= 6; seq++) insertAuditLeaf(tx, seq, hash(seq))
    insertAuditBlock(tx, 0, hash(1))
    insertAuditBlock(tx, 1, hash(2))
    insertAuditBlock(tx, 1, hash(3))
  })
  t.same(auditLeaves(store, 2, 3), [
    { seq: 2, hash: hash(2) },
    { seq: 3, hash: hash(3) }
  ])
  t.equal(lastAuditLeaf(store), 6)
  t.same(
    [...auditBlocks(store, 0, 9)],
    [
      [0, hash(1)],
      [1, hash(3)]
    ]
  )
  t.equal(await store.write(tx => removeAuditLeaves(tx, 4, 2)), 4)
  t.equal(auditLeaves(store, 1, 6).length, 2)
})

t.test('keeps the newest checkpoints', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (let size = 1; size <= 5; size++) insertAuditCheckpoint(tx, { size, at: 'now', note: `n${size}` }, 2)
    insertAuditCheckpoint(tx, { size: 5, at: 'later', note: 'again' }, 2)
  })
  t.same(newestAuditCheckpoint(store), { size: 5, at: 'later', note: 'again' })
  t.equal(store.all('SELECT 1 FROM auditCheckpoints').length, 2)
})
